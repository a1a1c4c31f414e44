"""The command line, in this process and in others, against real services on loopback."""
