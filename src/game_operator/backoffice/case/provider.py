"""What the provider answers now: the bet, and the round it belongs to."""

from collections.abc import Callable, Set
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from game_operator.backoffice.case.comparison import Difference, compared, compared_with_round
from game_operator.backoffice.case.redaction import Bytes, Foreign, Free, Person
from game_operator.errors import ApiError, GameOperatorError
from game_operator.ledger import BetRecord
from game_operator.models.operator_api import BetNotFound, RoundFound
from game_operator.protocol import operations
from game_operator.protocol.http import service_name
from game_operator.protocol.operations import AnyBet, Operation

if TYPE_CHECKING:
    from game_operator.client.sync import OperatorClient

#: Of a round, beside the bet itself; a round of a crash game may have thousands.
_MOST_BETS: Final = 200
_NOT_ASKED: Final = "The provider was not asked."


class Answer(NamedTuple):
    """
    What came of one question.

    Attributes:
        at_millis: When it was asked; None if it was not.
        found: The answer; None if there is none.
        problem: Why there is no answer, or "".
        body: The bytes of the answer, also of one that is an error.
    """

    at_millis: int | None
    found: Any  # Any: a bet or a round, found or not.
    problem: str | Free = ""
    body: bytes = b""

    def in_contents(self) -> dict[str, Any]:
        """Return when it was asked, and what went wrong, for the contents of a case file."""
        return {"asked_at_millis": self.at_millis, "problem": self.problem}


class Answers(NamedTuple):
    """The provider's answers about the bet and its round, and whom it was that answered."""

    service: str | None
    bet: Answer
    round: Answer

    @property
    def knows_bet(self) -> bool:
        """Whether the provider has the bet."""
        return self.bet.found is not None and not isinstance(self.bet.found, BetNotFound)

    def in_contents(self, bet_id: str) -> dict[str, Any]:
        """Return the answers for the contents of a case file."""
        bet = {"answer": _dumped(self.bet.found), "body": Bytes(self.bet.body) if self.bet.body else None}
        return {
            "was_asked": self.service is not None,
            "service": self.service,
            "bet": self.bet.in_contents() | bet,
            "round": self.round.in_contents() | {"answer": self._round(bet_id)},
        }

    def _round(self, bet_id: str) -> Any:  # Any: JSON, or None.
        found = self.round.found
        if not isinstance(found, RoundFound):
            return _dumped(found)
        # The bet itself first. Other players are never named: the case is not about them.
        bets = sorted(found.bets, key=lambda each: each.reference_id != bet_id)
        own = {each.player_id for each in bets if each.reference_id == bet_id}
        listed = [_of_other(each, own) for each in bets[: _MOST_BETS + 1]]
        document = {name: getattr(found, name) for name in RoundFound.model_fields if name != "bets"}
        return {
            "document": document | {"bets": listed},
            "bet_count": len(bets),
            "bets_left_out": len(bets) - len(listed),
            "wager_cents": sum(each.wager for each in bets),
            "won_cents": sum(each.won for each in bets if each.status == "CLOSED"),
        }

    def comparison(self, bet_id: str, ours: BetRecord | None) -> dict[str, Any]:
        """Return how the ledger's bet and the provider's answers differ, for the contents of a case file."""
        if self.bet.found is None:
            text = "The two sides were not compared: the provider was not asked or did not answer."
            return {"agrees": None, "text": text, "differences": []}
        found: list[Difference] = compared(ours, self.bet.found)
        if self.round.found is not None:
            found += compared_with_round(bet_id, self.bet.found, self.round.found)
        text = f"The two sides differ in {len(found)} {'point' if len(found) == 1 else 'points'}."
        if not found:
            text = "The ledger and the provider agree about the bet."
            if ours is None:
                text = "Neither the ledger nor the provider has the bet."
        return {"agrees": not found, "text": text, "differences": [each._asdict() for each in found]}


def _of_other(bet: Any, own: Set[str]) -> dict[str, Any]:  # Any: one of three kinds of bet.
    """Return the known fields of a bet of the round; whose it is only if that is one of *own*."""
    fields = {name: getattr(bet, name) for name in type(bet).model_fields}
    return fields if bet.player_id in own else fields | {"player_id": Person(bet.player_id)}


def asked(
    client: "OperatorClient | None", bet_id: str, ours: BetRecord | None, clock_millis: Callable[[], int]
) -> Answers:
    """Ask the provider for the bet and its round; *ours* names the round if the provider does not have the bet."""
    if client is None:
        nothing = Answer(None, None, _NOT_ASKED)
        return Answers(None, nothing, nothing)
    service = service_name(client.base_url, client.operator_id)
    bet = _answer(client, partial(operations.fetch_bet, client.operator_id, bet_id), clock_millis)
    found: AnyBet | None = bet.found
    named: Any = ours if found is None or isinstance(found, BetNotFound) else found  # Any: two kinds of bet.
    if named is None or named.instance_id is None or named.round_id is None:
        return Answers(service, bet, Answer(None, None, "Nobody names the round of the bet, so it was not asked for."))
    key = {"instance_id": named.instance_id, "round_id": named.round_id}
    return Answers(service, bet, _answer(client, partial(operations.fetch_round_bets, **key), clock_millis))


def _answer(
    client: "OperatorClient", ask: Callable[[], Operation[Any]], clock_millis: Callable[[], int]
) -> Answer:  # Any: a bet or a round.
    from game_operator.backoffice.reconcile.evidence import with_replies  # It loads the client.

    at_millis = clock_millis()
    try:
        operation, replies = with_replies(ask())
        found = client.perform(operation)
        return Answer(at_millis, found, body=replies[-1].body)
    except GameOperatorError as failed:
        body = failed.body if isinstance(failed, ApiError) else b""
        return Answer(at_millis, None, Free(f"{type(failed).__name__}: {failed}"), body)


def _dumped(found: Any) -> Any:  # Any: a bet or a round; JSON.
    return None if found is None else {"document": Foreign(found.model_dump())}
