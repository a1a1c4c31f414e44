"""What an error gives away: everything that a log, an error tracker or a queue could carry off."""

import pickle
import traceback
from pathlib import Path

from tests.support.sources import FOLDERS


def everything_told(error: BaseException) -> str:
    """
    Return all that *error* and the errors behind it say and hold.

    That includes the locals of our packages' frames, which error trackers send along, and the pickle.
    """
    chain = _chain(error)
    texts = [text for link in chain for text in (str(link), repr(link), repr(link.args), repr(vars(link)))]
    texts += [line for link in chain for line in _locals_of_ours(link)]
    return "\n".join([*texts, pickle.dumps(error).decode("latin-1")])


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and link not in chain:
            chain.append(link)
            waiting += [link.__cause__, link.__context__]
    return chain


def _locals_of_ours(error: BaseException) -> list[str]:
    told = traceback.TracebackException.from_exception(error, capture_locals=True, compact=False)
    frames = [frame for frame in told.stack if any(Path(frame.filename).is_relative_to(folder) for folder in FOLDERS)]
    return [f"{name} = {value}" for frame in frames for name, value in (frame.locals or {}).items()]
