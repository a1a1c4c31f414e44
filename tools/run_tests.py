"""
Run the tests in several plain processes of pytest: ``python tools/run_tests.py COUNT [OPTION …]``.

Each gets its hand of the files (tests/support/dealing.py) and all the options. The first writes as it goes, and the
others when all have ended; of these, what failed comes last. Workers that report each test to one process would take
more processor time.
"""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import IO, Final

#: Exit codes of pytest: all passed, or no test ran, for all files of a hand may be in another lane.
_PASSED: Final = (0, 5)


def main(count: int, options: Sequence[str]) -> int:
    """Run *count* processes; return 0 if tests ran and all of them passed, as pytest does."""
    with ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(1, count)]
        hands = [_start(f"{number}/{count}", options, output) for number, output in enumerate([None, *outputs], 1)]
        signal.signal(signal.SIGTERM, lambda number, _frame: [hand.send_signal(number) for hand in hands])
        codes = [_code(hand) for hand in hands]
        for _, output in sorted(zip(codes[1:], outputs, strict=True), key=lambda each: each[0] not in _PASSED):
            output.seek(0)
            sys.stdout.buffer.write(output.read())
    if worst(codes):
        print(f"Not all tests passed: the exit codes of the {count} processes are {codes}; see above.")  # noqa: T201
    return worst(codes)


def _start(hand: str, options: Sequence[str], output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    # Each would write what failed in its own hand over that of the others.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--hand", hand, *options]
    return subprocess.Popen(command, stdout=output, stderr=output and subprocess.STDOUT)  # noqa: S603


def _code(hand: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return hand.wait()
        except KeyboardInterrupt:
            """A terminal interrupts it, too, and it has its servers to stop."""


def worst(codes: Sequence[int]) -> int:
    """Return the exit code of a run whose processes ended with *codes*."""
    failed = [code for code in codes if code not in _PASSED]
    return failed[0] if failed else min(codes)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
