"""What ``game-operator certify`` needs beside the certifier."""
