"""Where a storm's players come from, and the books that show at the end what they have."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Protocol

from game_operator.codes import WebhookErrorCode
from game_operator.errors import AccountNotFoundError, ConfigurationError, shown
from game_operator.ledger.api import BetRecord, TableAccounts
from game_operator.ledger.sql import SqlLedger
from game_operator.models.webhooks import LONGEST_ID, BalanceCall, problem_of_id
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from game_operator_testkit.provider.caller import WebhookCaller
from game_operator_testkit.provider.delivery import DeliveryInDoubtError
from game_operator_testkit.provider.keys import SigningKey
from game_operator_testkit.sandbox.storm.audit import Closing


class Books(Protocol):
    """The accounts that a storm plays with."""

    def open(self, opening: Mapping[str, int]) -> Mapping[str, int]:
        """Make the players of *opening* ready, and return what they have, in cents."""

    def close(self, player_ids: Iterable[str]) -> Closing:
        """Return what these players have now, and their bets if the books have them."""


@dataclass(eq=False)
class LedgerBooks:
    """
    Opens fresh players in a ledger of ours, and reads their bets there; the wallet under test serves from it too.

    With *accounts* the balances are in a table of the operator's, where nobody is opened: the players are there.
    """

    url: str = field(repr=False)
    _: KW_ONLY
    table_prefix: str = "game_operator_"
    source: str = ""
    accounts: TableAccounts | None = None
    _older: frozenset[str] = field(default=frozenset(), init=False)

    def open(self, opening: Mapping[str, int]) -> Mapping[str, int]:
        """
        Open the players with the balances of *opening*, and return what they have.

        Raises:
            AccountExistsError: One is there already.
            ConfigurationError: With *accounts*, one is not.
        """
        with self._ledger() as ledger:
            if self.accounts is not None:
                found = {player_id: self._found(ledger, player_id) for player_id in opening}
                # They may have played before.
                self._older = frozenset(self._bets(ledger, frozenset(found)))
                return found
            for player_id, cents in opening.items():
                ledger.open_account(player_id, Decimal(amount_from_cents(cents)))
        return opening

    def close(self, player_ids: Iterable[str]) -> Closing:
        """Return balances and bets, and what ``verify`` finds."""
        players = frozenset(player_ids)
        with self._ledger() as ledger:
            balances = {player_id: _balance_in(ledger, player_id) for player_id in players}
            bets = self._bets(ledger, players)
            report = ledger.verify()
        return Closing(balances, bets, tuple(finding.detail for finding in report.findings))

    def _found(self, ledger: SqlLedger, player_id: str) -> int:
        balance = _balance_in(ledger, player_id)
        if balance is None:
            raise ConfigurationError(
                f"The table of balances has no player {shown(player_id)}. Insert the row, or take the player out of "
                "the file."
            )
        return balance

    def _bets(self, ledger: SqlLedger, players: frozenset[str]) -> dict[str, BetRecord]:
        kept = ledger.bets(source=self.source)
        return {bet.bet_id: bet for bet in kept if bet.player_id in players and bet.bet_id not in self._older}

    def _ledger(self) -> AbstractContextManager[SqlLedger]:
        return closing(SqlLedger(self.url, accounts=self.accounts, migrate=False, table_prefix=self.table_prefix))


def _balance_in(ledger: SqlLedger, player_id: str) -> int | None:
    """Return a balance in cents; None if the wallet under test has removed the account."""
    try:
        return int(ledger.balance(player_id))
    except AccountNotFoundError:
        return None


class PlayersBooks:
    """Players who hold money at any wallet: player-balance returns their balances."""

    def __init__(self, url: str, key: SigningKey, *, profile: Profile | None = None, timeout: float = 10.0) -> None:
        self._caller = partial(WebhookCaller, url, key, profile=profile, timeout=timeout)

    def open(self, opening: Mapping[str, int]) -> Mapping[str, int]:
        """Return the balances that the players of *opening* have; those in it do not count."""
        answers = self._answers(opening)
        balances = {player_id: answer for player_id, answer in answers.items() if isinstance(answer, int)}
        if unknown := [player_id for player_id in answers if player_id not in balances]:
            player_id, answer = unknown[0], answers[unknown[0]]
            advice = "Open their accounts, or take them out of the file."
            if answer != WebhookErrorCode.PLAYER_NOT_FOUND:
                advice = "Is this the address that /player-balance is below?"
            players = f"{len(unknown)} player{'' if len(unknown) == 1 else 's'}"
            raise ConfigurationError(
                f"The wallet returns no balance of {players}: for {shown(player_id)} it answers {answer}. {advice}"
            )
        return balances

    def close(self, player_ids: Iterable[str]) -> Closing:
        """Return the balances; the wallet returns no bets."""
        answers = self._answers(player_ids).items()
        return Closing({player_id: answer if isinstance(answer, int) else None for player_id, answer in answers})

    def _answers(self, player_ids: Iterable[str]) -> dict[str, int | str]:
        with self._caller() as caller:
            return {player_id: _balance_at(caller, player_id) for player_id in player_ids}


def _balance_at(caller: WebhookCaller, player_id: str) -> int | str:
    """Return the balance of a player in cents, or what the wallet answers in its place."""
    try:
        delivery = caller.send(BalanceCall(player_id=player_id))
    except DeliveryInDoubtError:
        return "nothing"
    reply = delivery.reply
    if reply is None:
        return f"HTTP {delivery.status}, and no reply"
    if reply.code is not None or reply.balance_cents is None:
        return reply.code or "no balance"
    return int(reply.balance_cents)


def read_players(path: Path) -> Sequence[str]:
    """
    Return the player ids in the file *path*, one on each line; empty lines and those that begin with # do not count.

    Raises:
        ConfigurationError: It cannot be read, has no players, has a player twice, or has an invalid id.
    """
    file = f"The players' file {shown(str(path))}"
    try:
        # With or without a byte order mark. Ids are never trimmed: a line ends where the file says, and nowhere else.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError, ValueError) as failed:
        problem = getattr(failed, "strerror", None) or "it is not UTF-8 text"
        raise ConfigurationError(f"{file} cannot be read: {problem}.") from None
    players = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if not players:
        raise ConfigurationError(f"{file} has no players. Write one player id on each line.")
    if len(set(players)) < len(players):
        raise ConfigurationError(f"{file} has a player twice. Name each once.")
    for player_id in players:
        if problem := problem_of_id(player_id, LONGEST_ID):
            raise ConfigurationError(f"A player id {problem}; the file has {shown(player_id)}.")
    return players


def check_wallet(caller: WebhookCaller, url: str, nobody: str) -> None:
    """Raise ConfigurationError if the wallet cannot answer player-balance; *nobody* is an unknown player."""
    delivery = caller.send(BalanceCall(player_id=nobody))
    if delivery.reply is None:
        raise ConfigurationError(
            f"{shown(url)} is not a wallet: player-balance was answered with HTTP {delivery.status}, and no reply "
            f"({delivery.problem}). Pass the address that /withdraw and the others are below."
        )
    if delivery.code == WebhookErrorCode.INVALID_SIGNATURE:
        raise ConfigurationError(
            "The wallet rejects our signatures. Give it the public half of the service's key, or pass the private "
            "half of the key that it has."
        )
    if delivery.code == WebhookErrorCode.INVALID_REQUEST:
        # Some wallets answer so at any path that they do not know.
        raise ConfigurationError(
            f"The wallet answers INVALID_REQUEST to a player-balance that is well-formed. Is {shown(url)} the address "
            "that /player-balance is below? Mind the prefix, such as /wallet."
        )


def check_players(caller: WebhookCaller, opening: Mapping[str, int]) -> None:
    """Raise ConfigurationError unless the wallet returns the balance that a player has in the books, in cents."""
    player_id, cents = next(iter(opening.items()))
    found = _balance_at(caller, player_id)
    if found == WebhookErrorCode.SYSTEM_ERROR:
        raise ConfigurationError(
            f"The wallet answers SYSTEM_ERROR to a player-balance of {shown(player_id)}. Look into its log. A wallet "
            "with few codes answers so to a wrong key too."
        )
    if found != cents:
        has = amount_from_cents(found) if isinstance(found, int) else "no balance"
        raise ConfigurationError(
            f"The wallet returns {has} for the player {shown(player_id)}, who has {amount_from_cents(cents)}. "
            "Pass the ledger that this wallet serves from."
        )
