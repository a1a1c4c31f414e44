"""``python -m game_operator.cli`` is ``game-operator``."""

import sys

from game_operator.cli import main

if __name__ == "__main__":
    sys.exit(main())
