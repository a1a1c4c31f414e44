"""What the back office writes down beside the ledger: runs, their chunks and items, and findings that outlive them."""
