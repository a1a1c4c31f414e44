"""The daily work of an operator, on top of the client and the ledger."""
