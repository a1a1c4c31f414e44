"""
Run the tests in several plain processes of pytest: ``python tools/run_tests.py COUNT [OPTION …]``.

Each gets its hand of the files (tests/support/dealing.py) and all the options. The first writes as it goes, and each of
the others all at once when it has ended; what failed comes last. One process with workers would spend a tenth of its
time on telling itself of each test.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Final

_OK: Final = 0
#: All files of a hand may be in another lane.
_NO_TESTS: Final = 5


def main(count: int, options: Sequence[str]) -> int:
    """Run *count* processes; return 0 if tests ran and all of them passed, as pytest does."""
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(1, count)]
        hands = [_start(f"{number}/{count}", options, output) for number, output in enumerate([None, *outputs], 1)]
        ended = [_code(hand) for hand in hands]
        for _, output in sorted(zip(ended[1:], outputs, strict=True), key=lambda each: each[0] != _OK):
            output.seek(0)
            sys.stdout.buffer.write(output.read())
    return worst(ended)


def _start(hand: str, options: Sequence[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", "--hand", hand, *options]
    return subprocess.Popen(command, stdout=output, stderr=output and subprocess.STDOUT)  # noqa: S603


def _code(hand: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return hand.wait()
        except KeyboardInterrupt:
            """It was interrupted, too, and has its servers to stop."""


def worst(codes: Sequence[int]) -> int:
    """Return the exit code of a run whose processes ended with *codes*."""
    failed = [code for code in codes if code not in (_OK, _NO_TESTS)]
    return failed[0] if failed else min(codes)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
