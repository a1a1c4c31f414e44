"""
Feed the receiver with bytes that a fuzzer makes up: no exception, and always a reply of spec §2.1.

It needs atheris (``pip install atheris``), which looks for bytes that reach code no others have reached::

    python tools/fuzz_receiver.py 600        # seconds; the corpus is kept in .fuzz/receiver

The first byte chooses the path and the profile, the rest is the body.
"""

import json
import logging
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / ".fuzz" / "receiver"
PATHS = ("/withdraw", "/deposit", "/rollback", "/player-balance", "/deposit-batch", "/deposit/batch", "/nowhere")
#: What the service sends, as a beginning.
SAMPLES = (
    (0, {"player_id": "p1", "amount": 5000, "game": "g", "instance_id": "i1", "action": "BET", "action_id": "b1"}),
    (0, {"player_id": "p1", "wager": 500.0, "action": "RAIN", "bet_id": "b1", "transaction_id": "t1"}),
    (1, {"player_id": "p1", "amount": 0, "action": {"type": "BET", "wager": 1, "won": 2}, "action_id": "b1"}),
    (1, {"player_id": "p1", "won": 7, "reference_id": "b1", "round_id": "r1"}),
    (1, {"player_id": "p1", "amount": 7, "action": {"type": "FREE_BET_CLAIM", "bets": [{"id": "x"}]}, "tx_id": "t"}),
    (1, {"player_id": "p1", "amount": 7, "action": {"type": "JACKPOT", "jackpot_id": "j"}, "action_id": "b1"}),
    (2, {"player_id": "p1", "action": "BET", "action_id": "b1", "tx_id": "withdraw:bet:b1", "round_id": "r1"}),
    (3, {"player_id": "p1"}),
    (4, [{"player_id": "p1", "amount": 1, "action": {"type": "BET"}, "action_id": "b1"}, 5]),
    (5, {"bets": [{"player_id": "p1", "won": 1, "bet_id": "b1"}]}),
)


def main(seconds: int) -> None:
    """Run until *seconds* are over; exits with an error as soon as the property fails."""
    try:
        import atheris
    except ImportError:
        sys.exit("fuzz_receiver: atheris is not installed; pip install atheris")
    _write_samples()
    with atheris.instrument_imports(include=["game_operator"]):
        one_input = _target()
    options = [f"-max_total_time={seconds}", "-max_len=2048", "-timeout=10", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, str(CORPUS)], one_input)
    atheris.Fuzz()


def _target() -> Callable[[bytes], None]:
    from game_operator import Profile
    from game_operator.webhooks import AcceptUnsigned, WebhookReceiver, success
    from tests.support.webhooks import read_reply, reply_of

    warnings.simplefilter("ignore")
    logging.getLogger("game_operator").addHandler(_Formatting())

    class Handler:
        def withdraw(self, call: Any) -> Any:  # It stands for all four.
            assert call.player_id.encode()
            assert call.body_digest
            return success(balance_cents=10_000)

        deposit = rollback = player_balance = withdraw

    receivers = [
        WebhookReceiver(authenticator=AcceptUnsigned(), profile=profile, instances=instances)
        for profile in (
            Profile(deposit_batch=True),
            Profile(deposit_batch=True, codes="core", allow_zero_withdraw=True),
        )
        for instances in (None, {"i1"})
    ]
    handler = Handler()

    def one_input(data: bytes) -> None:
        choice = data[0] if data else 0
        path = PATHS[choice % len(PATHS)]
        reply = receivers[choice // len(PATHS) % len(receivers)].handle(path, {}, data[1:], handler)
        assert reply.status == (404 if path == "/nowhere" else 200)
        assert reply.headers["content-length"] == str(len(reply.body))
        if reply.body.startswith(b"["):
            for item in json.loads(reply.body, parse_float=Decimal):
                reply_of({name: item[name] for name in item if name != "tx_id"})
        else:
            assert read_reply(reply.body).timestamp is not None

    return one_input


class _Formatting(logging.Handler):
    """Makes every line of the log, and holds that none is forged."""

    def emit(self, record: logging.LogRecord) -> None:
        assert record.getMessage().isprintable()
        assert not record.exc_info, f"a failure of our own: {record.exc_info[1]!r}"


def _write_samples() -> None:
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, (path, body) in enumerate(SAMPLES):
        text = json.dumps(body, separators=(",", ":")).encode()
        CORPUS.joinpath(f"sample-{number}").write_bytes(bytes([path]) + text)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
