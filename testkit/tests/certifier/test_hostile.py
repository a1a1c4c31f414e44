"""The scenarios of hostile input: right wallets pass, a wrong one's fault is named, sound ones get advice."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from wallet_by_hand import (
    SUCCESS,
    Bet,
    Call,
    InvalidRequestError,
    Number,
    PlainWallet,
    Reply,
    Webhooks,
)

from game_operator.profile import Profile
from game_operator.protocol.webhook_reply import fold_code
from game_operator_testkit.certifier import Outcome, Verdict, Weight
from game_operator_testkit.certifier.report.verdicts import KnownCause
from testkit.tests.certifier.harness import certified, certified_by, delivered_to, only, opened
from testkit.tests.certifier.serving import certified_at, served
from testkit.tests.certifier.wrong_wallets import hostile

LOST, BROKEN, ADVICE = Weight.MONEY_LOST, Weight.CONTRACT_BROKEN, Weight.ADVICE


class ReadsAmountsInText(PlainWallet):
    """Takes text for the number in it."""

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        amount = document.get("amount")
        more = {"amount": Number(amount)} if isinstance(amount, str) else {}
        return super()._read_amount(operation, action, document | more)


class ReadsTextAsUnits(PlainWallet):
    """Takes a number for cents, and text for units: other money than is meant."""

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        amount = document.get("amount")
        if isinstance(amount, str) and not isinstance(amount, Number):
            document = document | {"amount": Number(f"{amount}00")}
        return super()._read_amount(operation, action, document)


class TakesTheLastOfTwo(PlainWallet):
    """Knows nothing of members that stand twice."""

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        return dict(pairs)


class TakesLongIds(PlainWallet):
    """Has no bound of its own."""

    def _read_id(self, value: object, longest: int) -> str:
        return super()._read_id(value, 20_000)


class TakesBetsOfNothing(PlainWallet):
    """A withdraw of 0 is a bet."""

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        if document.get("amount") == "0":
            return 0
        return super()._read_amount(operation, action, document)


class CallsTheUnreadableAFailure(PlainWallet):
    """Answers SYSTEM_ERROR, so that the service sends it again for hours."""

    def _refuse(self, code: str) -> tuple[int, str]:
        return super()._refuse("SYSTEM_ERROR" if code == "INVALID_REQUEST" else code)


class RefusesHighBets(PlainWallet):
    """Has a limit, which is asked before the funds."""

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        amount = document.get("amount")
        if isinstance(amount, Number) and len(amount) > 9:
            raise InvalidRequestError("nobody bets so much")
        return super()._read_amount(operation, action, document)


class HasNoBounds(PlainWallet):
    """Reads bodies of any length and depth."""

    def longest_body(self, path: str) -> int:
        return 10_000_000

    def _check_depth(self, text: str) -> None:
        """As deep as the parser goes."""


@pytest.mark.parametrize(
    ("sound", "scenario", "weight", "told"),
    [
        pytest.param(CallsTheUnreadableAFailure, "F01", ADVICE, "may send it again for hours", id="a failure"),
        pytest.param(ReadsAmountsInText, "F03", ADVICE, 'whose amount is "50": accepted', id="text"),
        pytest.param(ReadsTextAsUnits, "F03", LOST, "; expected 994.50: 49.50 too little", id="text as units"),
        pytest.param(TakesBetsOfNothing, "F04", ADVICE, "no harm is done", id="a withdraw of 0"),
        pytest.param(TakesTheLastOfTwo, "F06", ADVICE, "with two values of", id="members that stand twice"),
        pytest.param(TakesLongIds, "F07", ADVICE, "has 257 characters: accepted", id="long ids"),
        pytest.param(HasNoBounds, "F09", ADVICE, "seems to have no size limit", id="no bounds"),
    ],
)
def test_what_costs_no_money(sound: type[PlainWallet], scenario: str, weight: Weight, told: str) -> None:
    """Where two sound wallets may differ it is advice; the same oddity that moves other money is not."""
    verdict = only(certified(sound, only=[scenario]))
    assert (verdict.outcome, verdict.weight) == (Outcome.FAILED, weight)
    assert any(told in note.reason for note in verdict.notes)


class CallsNothingAFailure(PlainWallet):
    """Goes by the caller's address, and so cannot know whether a middleware of its own took the body."""

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        return super()._answer(path, headers, body) if body else self._refuse("SYSTEM_ERROR")


@pytest.mark.parametrize(
    ("sound", "scenario"),
    [
        pytest.param(PlainWallet, "F09", id="long: SYSTEM_ERROR"),
        pytest.param(CallsNothingAFailure, "F01", id="empty: SYSTEM_ERROR"),
    ],
)
def test_either_code_is_right(sound: type[PlainWallet], scenario: str) -> None:
    """A body that is too long, or empty, may be SYSTEM_ERROR or INVALID_REQUEST, and is sent once."""
    verdict = only(certified(sound, only=[scenario]))
    assert (verdict.outcome, verdict.notes) == (Outcome.PASSED, ())
    assert not any("sent again" in each.title for each in verdict.exchanges)


def test_too_much_for_two_reasons() -> None:
    """A huge wager is too much for the player, or for anybody: both are right."""
    assert only(certified(RefusesHighBets, only=["F05"])).reason == ""


def test_a_player_who_has_so_much() -> None:
    """2^31 cents can be wagered by whoever has them: that amount is left out, and no larger one."""
    wallet = opened(cents=10**12)
    verdict = only(certified_by(delivered_to(wallet), only=["F05"]))
    wallet.close()
    assert verdict.reason == ""
    tried = [each.title for each in verdict.exchanges if "cents" in each.title]
    assert tried == ["a withdraw of 2^53 + 1 cents", "a withdraw of 10^30 cents"]


# --- Over HTTP --------------------------------------------------------------------------------------------------------


def _asked_over_http(kind: type[PlainWallet] = PlainWallet, handler: type[Webhooks] = Webhooks) -> Verdict:
    with served(opened(kind), handler) as url:
        return only(certified_at(url, only=["F10"], timeout=0.7))


class AnswersToGet(PlainWallet):
    """Asks for no method."""

    def handle(self, method: str, *request: Any) -> tuple[int, dict[str, str], bytes]:  # Any: as it came in
        return super().handle("POST", *request)


@pytest.mark.outside
def test_odd_requests() -> None:
    """The wallet by hand survives them all; who falls silent half way gets no answer, and harms nobody."""
    verdict = _asked_over_http()
    assert (verdict.outcome, verdict.notes) == (Outcome.PASSED, ())
    told = {each.title.removeprefix("a balance check "): each.told for each in verdict.exchanges}
    assert told["by GET"].startswith("HTTP 405")
    assert told["in chunks"] == told["in small pieces"] == told["meanwhile"] == "SUCCESS 1000.00"
    assert told["that breaks off half way"].startswith("no answer")


class AcceptsShortBodies(PlainWallet):
    """Bodies above 700 bytes are too long."""

    def longest_body(self, path: str) -> int:
        return 700


class ShortIds(PlainWallet):
    """Ids above 64 characters are too long."""

    def _read_id(self, value: object, longest: int) -> str:
        return super()._read_id(value, min(longest, 64))


class JoinsPieces(Webhooks):
    """Makes text of each piece of a body by itself, as ``text += chunk`` does in Node.js."""

    errors = "replace"

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self.rfile.read1(size)
            yield piece
            size -= len(piece)

    def _kept(self) -> Iterator[bytes]:
        pieces = list(super()._kept())
        self.server.wallet.text = "".join(piece.decode(errors=self.errors) for piece in pieces)  # type: ignore[attr-defined]
        yield from pieces


class ReadsText(PlainWallet):
    """Reads what its server has joined."""

    text = ""

    def _parse(self, body: bytes) -> object:
        return super()._parse(self.text.encode())


@pytest.mark.outside
def test_pieces_that_are_read_by_themselves() -> None:
    """It is for the pieces, and neither for the length nor for the characters of the id."""
    verdict = _asked_over_http(ReadsText, JoinsPieces)
    assert (verdict.weight, verdict.notes[0].cause) == (LOST, "")
    assert "one that is sent in one piece is accepted" in verdict.reason


@pytest.mark.outside
@pytest.mark.parametrize(
    ("wrong", "cause", "told"),
    [
        pytest.param(
            AcceptsShortBodies, KnownCause.SHORT_BODIES, "bytes is accepted, and none that is longer", id="bodies"
        ),
        pytest.param(ShortIds, KnownCause.NARROW, "a withdraw that has", id="ids"),
    ],
)
def test_what_is_refused_in_pieces_and_whole(wrong: type[PlainWallet], cause: str, told: str) -> None:
    """It is not for the pieces: the length is named that the wallet does not accept."""
    verdict = _asked_over_http(wrong)
    assert (verdict.weight, verdict.notes[0].cause) == (BROKEN, cause)
    assert told in verdict.reason


@pytest.mark.outside
def test_a_method_that_is_not_asked_for() -> None:
    """A balance that is told by GET may be kept by whatever is on the way: advice."""
    verdict = _asked_over_http(AnswersToGet)
    assert verdict.is_advice
    assert [note.reason for note in verdict.notes] == [
        f"a balance check by {each}: HTTP 200, SUCCESS; expected was a refusal, such as HTTP 405"
        for each in ("GET", "PUT")
    ]


class IgnoresSpacesAtTheEnd(PlainWallet):
    """The key of its bets does, and it has few codes."""

    def _bet_key(self, call: Call) -> str:
        return super()._bet_key(call).rstrip()

    def _find_bet(self, bet_id: str) -> Bet | None:
        return super()._find_bet(bet_id.rstrip())

    def _render(self, reply: Reply) -> str:
        outcome = reply.outcome if reply.outcome == SUCCESS else fold_code(reply.outcome, Profile(codes="core"))
        return super()._render(replace(reply, outcome=outcome))


@pytest.mark.parametrize(
    ("wrong", "codes", "scenario", "cause"),
    [
        pytest.param(hostile.AcceptsPlainIds, "extended", "F08", KnownCause.ODD_IDS, id="characters"),
        pytest.param(hostile.AcceptsPlainIds, "core", "B09", KnownCause.ODD_IDS, id="characters, few codes"),
        pytest.param(IgnoresSpacesAtTheEnd, "core", "B09", "", id="two that are one, few codes"),
    ],
)
def test_why_an_id_is_refused(wrong: type[PlainWallet], codes: Any, scenario: str, cause: str) -> None:
    """For its characters, its length, or because it is taken for another: the same code says all three."""
    report = certified(wrong, only=[scenario], profile=Profile(codes=codes, deposit_batch=True))
    assert only(report).notes[0].cause == cause


class RefusesInItsOwnWords(PlainWallet):
    """Each refusal is an HTTP 400, and no reply."""

    status = 400

    def handle(self, *request: Any) -> tuple[int, dict[str, str], bytes]:  # Any: as it came in
        status, headers, body = super().handle(*request)
        refused = b'"ERROR"' in body
        return (self.status, headers, b'{"error":"no"}') if refused else (status, headers, body)


class HasNoSuchRoute(RefusesInItsOwnWords):
    """The same, as where nobody serves a path."""

    status = 404


@pytest.mark.parametrize(
    ("wrong", "scenario", "cause"),
    [
        pytest.param(RefusesInItsOwnWords, "F01", KnownCause.FRAMEWORK, id="a body that cannot be read"),
        pytest.param(RefusesInItsOwnWords, "A06", KnownCause.NO_REPLY, id="a call that was read"),
        pytest.param(HasNoSuchRoute, "F01", KnownCause.NO_REPLY, id="nobody serves it"),
    ],
)
def test_who_refuses_without_a_reply(wrong: type[PlainWallet], scenario: str, cause: str) -> None:
    """A call that was refused for want of money was read by the wallet itself, and not by a framework."""
    assert only(certified(wrong, only=[scenario])).notes[0].cause == cause
