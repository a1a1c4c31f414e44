"""What ``game-operator doctor`` looks at."""
