"""Where a storm's players come from, and who tells at the end what they have."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from game_operator.codes import WebhookErrorCode
from game_operator.errors import (
    AccountExistsError,
    AccountNotFoundError,
    ConfigurationError,
    DeliveryInDoubtError,
    shown,
)
from game_operator.ledger.api import BetRecord, TableAccounts
from game_operator.ledger.sql import SqlLedger
from game_operator.models.webhooks import BalanceCall, problem_of_id
from game_operator.money import amount_from_cents
from game_operator.profile import Profile
from game_operator.provider.caller import WebhookCaller
from game_operator.provider.keys import SigningKey
from game_operator.sandbox.storm.audit import Closing

_LONGEST_ID: Final = 256
_LARGEST_FILE: Final = 64 * 1024 * 1024


class Books(Protocol):
    """The accounts that a storm plays with."""

    def open(self, opening: Mapping[str, int]) -> Mapping[str, int]:
        """Make the players of *opening* ready, and return what they have, in cents."""

    def close(self, player_ids: Iterable[str]) -> Closing:
        """Return what these players have now, and their bets where those can be known."""


class LedgerBooks:
    """
    Opens fresh players in a ledger of ours, and reads their bets there; the wallet under test serves from it too.

    With *accounts* the balances are in a table of the operator's, where nobody is opened: the players are there.
    """

    def __init__(
        self,
        url: str,
        *,
        table_prefix: str = "game_operator_",
        source: str = "",
        accounts: TableAccounts | None = None,
    ) -> None:
        self._url, self._prefix, self._source, self._accounts = url, table_prefix, source, accounts
        self._older: frozenset[str] = frozenset()

    def open(self, opening: Mapping[str, int]) -> Mapping[str, int]:
        """
        Open the players with the balances of *opening*, and return what they have.

        Raises:
            ConfigurationError: One is there already; or with *accounts*, one is not.
        """
        with closing(self._ledger()) as ledger:
            if self._accounts is not None:
                return self._found(ledger, opening)
            for player_id, cents in opening.items():
                try:
                    ledger.open_account(player_id, Decimal(amount_from_cents(cents)))
                except AccountExistsError:
                    raise ConfigurationError(
                        f"The ledger has a player {shown(player_id)} already, and a storm's are fresh: a trace is "
                        "replayed against an empty database."
                    ) from None
        return opening

    def sources(self) -> list[str]:
        """Return the sources that the ledger knows."""
        with closing(self._ledger()) as ledger:
            return ledger.sources()

    def close(self, player_ids: Iterable[str]) -> Closing:
        """Return balances and bets, and what ``verify`` finds."""
        players = frozenset(player_ids)
        with closing(self._ledger()) as ledger:
            balances = {player_id: _balance_in(ledger, player_id) for player_id in players}
            bets = self._bets(ledger, players)
            report = ledger.verify()
        return Closing(balances, bets, tuple(finding.detail for finding in report.findings))

    def _found(self, ledger: SqlLedger, players: Iterable[str]) -> Mapping[str, int]:
        balances = {}
        for player_id in players:
            balance = _balance_in(ledger, player_id)
            if balance is None:
                raise ConfigurationError(
                    f"There is no player {shown(player_id)} in the table of balances. Insert the row, or take the "
                    "player out of the file."
                )
            balances[player_id] = balance
        # They may have played before.
        self._older = frozenset(self._bets(ledger, frozenset(balances)))
        return balances

    def _bets(self, ledger: SqlLedger, players: frozenset[str]) -> dict[str, BetRecord]:
        kept = ledger.bets(source=self._source)
        return {bet.bet_id: bet for bet in kept if bet.player_id in players and bet.bet_id not in self._older}

    def _ledger(self) -> SqlLedger:
        return SqlLedger(self._url, accounts=self._accounts, migrate=False, table_prefix=self._prefix)


def _balance_in(ledger: SqlLedger, player_id: str) -> int | None:
    """Return a balance in cents; None if the wallet under test has removed the account."""
    try:
        return int(ledger.balance(player_id))
    except AccountNotFoundError:
        return None


class PlayersBooks:
    """Players who hold money at any wallet: their balances are asked for by player-balance."""

    def __init__(self, url: str, key: SigningKey, *, profile: Profile | None = None, timeout: float = 10.0) -> None:
        self._caller = partial(WebhookCaller, url, key, profile=profile, timeout=timeout)

    def open(self, opening: Mapping[str, int]) -> Mapping[str, int]:
        """Return the balances that the players of *opening* have, whatever it says."""
        found = self._told(opening)
        unknown = {player_id: told for player_id, told in found.items() if isinstance(told, str)}
        for player_id, told in unknown.items():
            advice = "Open their accounts, or take them out of the file."
            if told != WebhookErrorCode.PLAYER_NOT_FOUND:
                advice = "Is this the address that /player-balance is below?"
            raise ConfigurationError(
                f"The wallet tells no balance of {len(unknown)} players: asked for {shown(player_id)} it answers "
                f"{told}. {advice}"
            )
        return {player_id: cents for player_id, cents in found.items() if not isinstance(cents, str)}

    def close(self, player_ids: Iterable[str]) -> Closing:
        """Return the balances; of bets the wallet does not tell."""
        told = self._told(player_ids)
        return Closing({player_id: None if isinstance(cents, str) else cents for player_id, cents in told.items()})

    def _told(self, player_ids: Iterable[str]) -> dict[str, int | str]:
        with self._caller() as caller:
            return {player_id: _told_by(caller, player_id) for player_id in player_ids}


def _told_by(caller: WebhookCaller, player_id: str) -> int | str:
    """Return the balance of a player in cents, or what is answered in its place."""
    try:
        told = caller.send(BalanceCall(player_id=player_id))
    except DeliveryInDoubtError:
        return "nothing"
    if told.reply is None:
        return f"HTTP {told.status}, and no reply"
    if told.reply.code is not None or told.reply.balance_cents is None:
        return told.reply.code or "no balance"
    return int(told.reply.balance_cents)


def read_players(path: Path) -> Sequence[str]:
    """
    Return the player ids in the file *path*, one on each line; empty lines and those that begin with # do not count.

    Raises:
        ConfigurationError: It cannot be read, names nobody, or somebody twice, or holds what is no id.
    """
    try:
        # With or without a byte order mark. Ids are never trimmed: a line ends where the file says, and nowhere else.
        with path.open(encoding="utf-8-sig") as file:
            text = file.read(_LARGEST_FILE + 1)
    except (OSError, UnicodeError, ValueError) as failed:
        problem = getattr(failed, "strerror", None) or "it is no UTF-8 text"
        raise ConfigurationError(f"The players' file {shown(str(path))} cannot be read: {problem}.") from None
    if len(text) > _LARGEST_FILE:
        raise ConfigurationError(f"The players' file {shown(str(path))} has more than {_LARGEST_FILE} characters.")
    players = [line for line in text.split("\n") if line.strip() and not line.startswith("#")]
    if not players:
        raise ConfigurationError(
            f"The players' file {shown(str(path))} names nobody. Write one player id on each line."
        )
    if len(set(players)) < len(players):
        raise ConfigurationError(f"The players' file {shown(str(path))} names a player twice. Name each once.")
    for player_id in players:
        if problem := problem_of_id(player_id, _LONGEST_ID):
            raise ConfigurationError(f"A player id {problem}; the file has {shown(player_id)}.")
    return players


def check_wallet(caller: WebhookCaller, url: str, nobody: str) -> None:
    """Ask for the balance of *nobody*, before any account is opened."""
    told = caller.send(BalanceCall(player_id=nobody))
    if told.reply is None:
        raise ConfigurationError(
            f"{shown(url)} is no wallet: player-balance was answered with HTTP {told.status}, and no reply "
            f"({told.problem}). Pass the address that /withdraw and the others are below."
        )
    if told.code == WebhookErrorCode.INVALID_SIGNATURE:
        raise ConfigurationError(
            "The wallet takes our calls for forged. Give it the public half of the service's key, or pass the "
            "private half of the one it has."
        )
    if told.code == WebhookErrorCode.INVALID_REQUEST:
        # Some wallets say so of any path that they do not know.
        raise ConfigurationError(
            f"The wallet answers INVALID_REQUEST to a player-balance that is well-formed. Is {shown(url)} the address "
            "that /player-balance is below? Mind the prefix, such as /wallet."
        )


def check_replay(begins_with: Mapping[str, int], opening: Mapping[str, int]) -> None:
    """A trace is sent again to players with the balances that it began with, in cents."""
    for player_id, cents in opening.items():
        due = begins_with[player_id]
        if cents != due:
            raise ConfigurationError(
                f"The wallet has {amount_from_cents(cents)} for the player {shown(player_id)}, and the trace "
                f"begins with {amount_from_cents(due)}. Put the wallet back to where it was: these balances, and "
                "none of the trace's bets."
            )


def check_players(caller: WebhookCaller, opening: Mapping[str, int]) -> None:
    """The wallet tells of a player what the books have, in cents."""
    player_id, cents = next(iter(opening.items()))
    told = caller.send(BalanceCall(player_id=player_id)).reply
    if told is not None and told.code == WebhookErrorCode.SYSTEM_ERROR:
        raise ConfigurationError(
            f"The wallet answers SYSTEM_ERROR when it is asked for the balance of {shown(player_id)}. Look into "
            "its log; where codes are few, that is said of a wrong key too."
        )
    balance_cents = None if told is None or told.code is not None else told.balance_cents
    if balance_cents != cents:
        has = "no balance" if balance_cents is None else amount_from_cents(int(balance_cents))
        raise ConfigurationError(
            f"The wallet tells {has} of the player {shown(player_id)}, who has {amount_from_cents(cents)}. "
            "Pass the ledger that this wallet serves from."
        )
