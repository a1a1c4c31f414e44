"""What could lose or double money in a ledger's place: at opening, and when asked."""
