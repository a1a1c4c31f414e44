"""Where balances live: our own table, a table of the operator's, or an object of the operator's."""
