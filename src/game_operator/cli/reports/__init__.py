"""How results look at a terminal."""
