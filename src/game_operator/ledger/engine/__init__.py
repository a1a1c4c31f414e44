"""What a ledger does in one transaction, and its tables: written once for all databases."""
