"""What could lose or double money in a ledger's place: at opening, when asked, and before an upgrade."""
