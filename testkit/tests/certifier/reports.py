"""Reports made by hand: of a wallet that is right, of one with mistakes, and of one that answers hostile bytes."""

from dataclasses import replace

from game_operator.errors import MalformedCallError
from game_operator.models.webhooks import Reply
from game_operator.protocol.http import HeaderPairs
from game_operator_testkit.certifier.report.report import Cause, Moved, Report
from game_operator_testkit.certifier.report.verdicts import (
    Exchange,
    KnownCause,
    Note,
    Outcome,
    Verdict,
    Weight,
    mistake_of,
)
from game_operator_testkit.provider.replies import read_reply

URL = "http://127.0.0.1:8000/wallet"
#: 2026-11-21 14:03:59.120 UTC.
BEGAN_MILLIS = 1_795_269_839_120

#: All that may be taken for something else than text, as far as a str can hold it.
EVIL = "<script>window.ran = 1</script>\"'`&amp;]]>\x00\x1b[31m\u202e\ud800\ufffe-- --><!-- {{ 7 * 7 }} {% raw %}"
#: The same as bytes, with some that are no UTF-8.
EVIL_BYTES = EVIL.encode(errors="replace") + b"\xff\xfe\xed\xa0\x80\r\n"

SIGNED: HeaderPairs = (
    (b"Content-Type", b"application/json"),
    (b"signature", b"[left out]"),
    (b"User-Agent", b"game-operator/1 (certify)"),
)
ANSWERED: HeaderPairs = ((b"content-type", b"application/json"), (b"content-length", b"61"))


def exchange(
    title: str = "a withdraw",
    *,
    path: str = "/withdraw",
    body: bytes = b'{"player_id":"p1","amount":500,"action":"BET","action_id":"b1","tx_id":"withdraw:bet:b1"}',
    headers: HeaderPairs = SIGNED,
    request_bytes: int | None = None,
    status: int = 200,
    answer: bytes = b'{"type":"SUCCESS","balance":95.00,"timestamp":1795269839125}',
    answer_headers: HeaderPairs = ANSWERED,
    problem: str = "",
) -> Exchange:
    """Return an exchange; its reply is read from *answer*."""
    reply, unread = _read(answer)
    return Exchange(
        title=title,
        method="POST",
        path=path,
        request_headers=headers,
        request_body=body,
        request_bytes=len(body) if request_bytes is None else request_bytes,
        status=status,
        answer_headers=answer_headers,
        answer_body=answer,
        reply=None if problem else reply,
        problem=problem or unread,
        elapsed_ms=4.25,
        at_millis=BEGAN_MILLIS + 5,
        signed_by="service",
    )


def passed(scenario_id: str, title: str = "all is well", *, exchanges: int = 3) -> Verdict:
    """Return a verdict of a scenario that did not fail."""
    return Verdict(
        scenario_id,
        title,
        Weight.MONEY_LOST,
        Outcome.PASSED,
        exchanges=tuple(exchange(f"call {number + 1}") for number in range(exchanges)),
        duration_ms=12.5,
        rests_on=("spec §2.1", "spec §4.1"),
        means="A player would wait for money.",
        fix="Answer.",
    )


def failed(
    scenario_id: str,
    title: str,
    weight: Weight,
    reason: str,
    *,
    means: str,
    fix: str,
    exchanges: tuple[Exchange, ...] = (),
    decisive: int | None = None,
    rests_on: tuple[str, ...] = ("spec §3", "decision 0014"),
) -> Verdict:
    """Return a verdict of a scenario that failed."""
    return Verdict(
        scenario_id,
        title,
        weight,
        Outcome.FAILED,
        reason=reason,
        exchanges=exchanges,
        duration_ms=31.0,
        notes=(Note(reason, weight, cause="", exchange=decisive),),
        rests_on=rests_on,
        means=means,
        fix=fix,
    )


def advised() -> Verdict:
    """Return what could be better."""
    return failed(
        "F06",
        "a key stands twice in one object",
        Weight.ADVICE,
        "A withdraw with two amounts was answered SUCCESS 95.00.",
        means="Two programs may read two different amounts from the same signed bytes.",
        fix="Refuse a body that has a key twice.",
        exchanges=(exchange("a withdraw with two amounts"),),
        decisive=0,
        rests_on=("decision 0010",),
    )


def skipped(scenario_id: str = "A09") -> Verdict:
    """Return a verdict of a scenario that was not tried."""
    return Verdict(
        scenario_id,
        "a blocked player has an open bet",
        Weight.MONEY_LOST,
        Outcome.SKIPPED,
        reason="It needs a way to block a player: pass block=.",
        rests_on=("spec §4.1", "decision 0014"),
    )


def undone(scenario_id: str = "A09") -> Verdict:
    """Return a verdict of a scenario for which something was supplied that did not work."""
    reason = "the hook block ended with exit code 7: 'ann is unknown here'"
    return replace(skipped(scenario_id), reason=reason, is_undone=True)


def unjudged(scenario_id: str = "B03") -> Verdict:
    """Return a verdict of a scenario that says nothing about money: no answer could be read."""
    verdict = failed(
        scenario_id,
        "a withdraw sent again",
        Weight.CONTRACT_BROKEN,
        "a withdraw: answered HTTP 200, and no reply of spec §2.1",
        means="of the scenario",
        fix="of the scenario",
    )
    return replace(verdict, notes=(replace(verdict.notes[0], cause=KnownCause.NO_REPLY),))


def hidden(count: int, *others: Cause) -> Report:
    """Return the report of a wallet whose answers nobody can read in *count* scenarios, and with *others*."""
    blind = [unjudged(f"B{number:02}") for number in range(1, count + 1)]
    cause = Cause(blind[0], tuple(blind[1:]), mistake_of(KnownCause.NO_REPLY))
    seen = [each for other in others for each in (other.verdict, *other.others)]
    return report(passed("A01"), *blind, *seen, causes=(cause, *others))


def out_of_time(*scenario_ids: str) -> Report:
    """Return the report of a run whose time limit was used up before *scenario_ids* were played."""
    reason = "not begun: the run's 1 s were used up"
    late = [failed(each, "a repeat", Weight.CONTRACT_BROKEN, reason, means="-", fix="-") for each in scenario_ids]
    late = [replace(each, notes=(replace(each.notes[0], cause=KnownCause.OUT_OF_TIME),)) for each in late]
    cause = Cause(late[0], tuple(late[1:]), mistake_of(KnownCause.OUT_OF_TIME))
    return report(passed("A01"), *late, causes=(cause,))


def doubled() -> Verdict:
    """Return the mistake that costs most."""
    return failed(
        "B01",
        "the same withdraw again",
        Weight.MONEY_DOUBLED,
        "The same withdraw of 5.00 was sent twice and taken twice: the balance is 90.00 and should be 95.00.",
        means="Whenever an answer is lost on the way, the service sends the call again, and the player pays twice for "
        "one bet. The player loses the wager; you owe it back.",
        fix="Keep (operation, tx_id) of each call under a unique constraint, in the transaction that moves the money; "
        "answer a repeat with SUCCESS and the current balance.",
        exchanges=(
            exchange("the balance before", path="/player-balance", body=b'{"player_id":"p1"}'),
            exchange("a withdraw of 5.00"),
            exchange("the same withdraw again", answer=b'{"type":"SUCCESS","balance":90.00,"timestamp":1795269839130}'),
            exchange("the balance after", path="/player-balance", body=b'{"player_id":"p1"}'),
        ),
        decisive=2,
    )


def twice_paid() -> Verdict:
    """Return the same mistake in another scenario."""
    return failed(
        "B02",
        "a deposit five times, a rollback five times",
        Weight.MONEY_DOUBLED,
        "The same deposit of 12.50 was sent five times and paid five times.",
        means="A win is paid as often as it is sent: you lose it.",
        fix="As for B01.",
        exchanges=(exchange("a deposit", path="/deposit"), exchange("the same deposit again", path="/deposit")),
        decisive=1,
    )


def phantom() -> Verdict:
    """Return a mistake of the operator's cost."""
    return failed(
        "C06",
        "a withdraw is refused for funds, then rolled back",
        Weight.MONEY_LOST,
        "A wager that was refused was refunded: the balance rose by 250.00.",
        means="Whoever bets more than they have is paid for it. You lose the amount of every such bet.",
        fix="Refund only a withdraw that was debited.",
        exchanges=(exchange("a rollback", path="/rollback", status=500, answer=b"<h1>oops</h1>"),),
        decisive=0,
    )


def broken() -> Verdict:
    """Return a failure that moves no money, and whose request was longer than what was kept."""
    return failed(
        "E11",
        "5 MB without a signature",
        Weight.CONTRACT_BROKEN,
        "No answer came within 10 s.",
        means="Whoever finds your address can keep your wallet busy.",
        fix="Limit bodies before they are read.",
        exchanges=(
            exchange(
                "5 MB",
                body=b"x" * 65_536,
                request_bytes=5_242_880,
                status=0,
                answer=b"",
                answer_headers=(),
                problem="no answer within 10 s",
            ),
        ),
        rests_on=("spec §5",),
    )


def report(*verdicts: Verdict, causes: tuple[Cause, ...] = (), load_ms: tuple[float, ...] = ()) -> Report:
    """Return a report with these verdicts."""
    return Report(
        url=URL,
        verdicts=tuple(sorted(verdicts, key=lambda verdict: verdict.id)),
        causes=causes,
        load_ms=load_ms,
        moved=(Moved("p1", 10_000, 9_500), Moved("p2", 10_000, 10_000), Moved("gone", 10_000, None)),
        began_millis=BEGAN_MILLIS,
        seconds=19.75,
        calls=1_483,
        moving_calls=1_200,
        run_id="c7k2m9",
        version="1.0.0",
    )


def passing_report() -> Report:
    """Return the report of a wallet without a mistake."""
    return replace(
        report(passed("A01"), passed("B01", exchanges=30), skipped(), advised()),
        causes=(Cause(advised()),),
        moved=(Moved("p1", 10_000, 10_000),),
    )


def failing_report() -> Report:
    """Return the report of a wallet with three mistakes, one of which shows twice, and with advice."""
    samples = (*(3.0 + number / 10 for number in range(180)), 100.0, 100.1, 180.0, 499.0, 500.0, 501.0, 720.0)
    return report(
        passed("A01", "a player's balance"),
        passed("A02", "a round that is won"),
        doubled(),
        twice_paid(),
        phantom(),
        passed("D01", "fifty withdraws at once", exchanges=60),
        broken(),
        advised(),
        skipped(),
        causes=(Cause(doubled(), (twice_paid(),)), Cause(phantom()), Cause(broken()), Cause(advised())),
        load_ms=samples,
    )


def hostile_report() -> Report:
    """Return a report in which whatever a wallet, or somebody who names players, can choose is hostile."""
    evil = exchange(
        EVIL,
        path=f"/{EVIL}",
        body=EVIL_BYTES,
        headers=((b"X-" + EVIL_BYTES, EVIL_BYTES), *SIGNED),
        answer=EVIL_BYTES,
        answer_headers=((EVIL_BYTES, EVIL_BYTES),),
        problem=EVIL,
    )
    long = exchange("a long answer", answer=b"\x00" * 300_000, answer_headers=((b"x-long", b"y" * 60_000),))
    verdict = failed(
        f"B{EVIL}",
        EVIL,
        Weight.MONEY_LOST,
        EVIL,
        means=EVIL,
        fix=EVIL,
        exchanges=(evil, long),
        decisive=0,
        rests_on=(EVIL, f"spec {EVIL}"),
    )
    return replace(
        report(verdict, causes=(Cause(verdict),)),
        run_id=EVIL,
        version=EVIL,
        url=f"{URL}/{EVIL}",
        moved=(Moved(EVIL, 0, -5),),
    )


def _read(answer: bytes) -> tuple[Reply | None, str]:
    try:
        return read_reply(answer), ""
    except MalformedCallError as unread:
        return None, f"the answer cannot be read: {unread}"
