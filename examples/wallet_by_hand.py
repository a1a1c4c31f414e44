"""
A complete wallet by hand: Python's standard library, cryptography for the signature, and nothing of game_operator.

It shows what a back end in any other language must do, and docs/tutorials/another-language.md has the rules.
`PlainWallet` keeps cents in SQLite. Each rule is a small method. Where the specification is silent, it follows
docs/decisions/0010 to 0014.

    python wallet_by_hand.py                               # plays a bet, and ends
    python wallet_by_hand.py service.pub.pem 8000 p1 p2    # serves a wallet in which both have 100.00
"""

# ruff: noqa: ARG002 -- Each rule is a method that also gets values that another wallet might use.

import json
import re
import sqlite3
import sys
import threading
import time
import urllib.request
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

PATHS = {"/withdraw": "withdraw", "/deposit": "deposit", "/rollback": "rollback", "/player-balance": "player-balance"}
BATCH_PATHS = ("/deposit-batch", "/deposit/batch")
MAX_BODY, MAX_BATCH, MAX_ITEMS, MAX_LEVELS, BATCH_SECONDS = 65_536, 1_048_576, 1_000, 64, 60
MAX_CENTS, MAX_ID, MAX_TX_ID = 10**15, 256, 320
SUCCESS = "SUCCESS"
#: Why a bet that is not OPEN cannot be settled.
SETTLED, CANCELLED = "BET_ALREADY_CLOSED", "BET_ROLLED_BACK"
NOT_OPEN = {"SPENT": SETTLED, "CLOSED": SETTLED, "ROLLED_BACK": CANCELLED, "TOMBSTONE": CANCELLED}

#: The database enforces uniqueness: two calls at once cannot both insert. All money is in whole cents.
SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (
    player_id TEXT PRIMARY KEY, cents INTEGER NOT NULL, last_millis INTEGER NOT NULL, blocked INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bets (
    bet_id TEXT PRIMARY KEY, player_id TEXT NOT NULL, tx_id TEXT NOT NULL, cents INTEGER NOT NULL, state TEXT NOT NULL,
    code TEXT, digest TEXT);
CREATE TABLE IF NOT EXISTS calls (
    operation TEXT, tx_id TEXT, content TEXT NOT NULL, held_for TEXT, PRIMARY KEY (operation, tx_id));
CREATE TABLE IF NOT EXISTS postings (
    operation TEXT, tx_id TEXT, player_id TEXT NOT NULL, cents INTEGER NOT NULL, at_millis INTEGER NOT NULL,
    PRIMARY KEY (operation, tx_id));
"""


class InvalidRequestError(ValueError):
    """The body is not a valid call (decision 0010)."""


class Number(str):
    """A number as written in the JSON text, so that it never becomes a float."""


@dataclass(frozen=True)
class Call:
    """A body that was read (decision 0010). A rollback's `cents` are not read: it refunds what was taken."""

    operation: str
    player_id: str
    bet_id: str | None = None
    tx_id: str | None = None
    action: str = "BET"
    cents: int = 0
    instance_id: object = None
    digest: str = ""

    @property
    def is_claim(self) -> bool:
        """A claim neither reads nor changes a bet, even one that it names (decision 0014)."""
        return self.operation == "deposit" and self.action != "BET"


@dataclass(frozen=True)
class Account:
    """A player's money, and the last time that was returned with it."""

    player_id: str
    cents: int
    last_millis: int
    blocked: int


@dataclass(frozen=True)
class Bet:
    """OPEN, SPENT (no deposit settles it), CLOSED, ROLLED_BACK, TOMBSTONE, or DECLINED with the code of the reply."""

    bet_id: str
    player_id: str
    tx_id: str
    cents: int
    state: str
    code: str | None
    digest: str | None


@dataclass(frozen=True)
class Known:
    """The call that used (operation, tx_id), or the bet for which a tombstone holds it."""

    content: str
    held_for: str | None


@dataclass(frozen=True)
class Case:
    """A call with all stored data about it, read in one transaction."""

    call: Call
    now: int
    account: Account | None
    bet: Bet | None
    known: Known | None

    @property
    def is_repeat(self) -> bool:
        """A call with this identity has a final answer, and check 2 has found the same content."""
        return self.known is not None and self.known.held_for is None


@dataclass(frozen=True)
class Reply:
    """The answer (spec §2.1)."""

    outcome: str
    cents: int | None = None
    at_millis: int | None = None


class PlainWallet:
    """
    The four webhooks (spec §4.1) over one SQLite database.

    Args:
        public_keys: The service's public keys; more than one during a rotation. May be changed at any time.
        database: A file that processes may share, or a database in memory.
        instances: Your game instances: withdraws and claims for any other are refused (decision 0011).
        clock_millis: Unix time in milliseconds.
        batches: Whether to answer batches of deposits as well.
    """

    signature_header = "signature"

    def __init__(
        self,
        public_keys: Sequence[RSAPublicKey],
        *,
        database: str = ":memory:",
        instances: frozenset[str] | None = None,
        clock_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        batches: bool = False,
    ) -> None:
        self.public_keys = list(public_keys)
        self.instances = instances
        self.clock_millis = clock_millis
        self.batches = batches
        self.broken = False
        self._lock = threading.Lock()
        self._database = sqlite3.connect(database, timeout=30, isolation_level=None, check_same_thread=False)
        self._database.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {SCHEMA}")

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    # --- For the operator's staff -------------------------------------------------------------------------------------

    def open_account(self, player_id: str, cents: int) -> None:
        """Open an account; sqlite3.IntegrityError if there is one."""
        with self._transaction():
            self._insert("accounts", player_id, cents, 0, 0)

    def balance_cents(self, player_id: str) -> int:
        """Return the player's money; KeyError for nobody."""
        with self._lock:
            account = self._find_account(player_id)
        if account is None:
            raise KeyError(player_id)
        return account.cents

    def block(self, player_id: str) -> None:
        """Let the player place no more bets. Credits and refunds continue."""
        self._set_blocked(player_id, 1)

    def unblock(self, player_id: str) -> None:
        """Let the player bet again. What was declined stays declined."""
        self._set_blocked(player_id, 0)

    def _set_blocked(self, player_id: str, blocked: int) -> None:
        with self._transaction():
            self._database.execute("UPDATE accounts SET blocked = ? WHERE player_id = ?", (blocked, player_id))

    # --- From bytes to bytes ------------------------------------------------------------------------------------------

    def handle(
        self, method: str, path: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Answer one request with status, headers and body. Never raises: a failure is SYSTEM_ERROR, rolled back."""
        sent = {"Content-Type": "application/json"}
        if path not in PATHS and not (self.batches and path in BATCH_PATHS):
            return 404, sent, self._render(Reply("INVALID_REQUEST")).encode()
        if method != "POST":
            return 405, sent | {"Allow": "POST"}, self._render(Reply("INVALID_REQUEST")).encode()
        try:
            status, text = self._answer(path, list(headers), body)
        except InvalidRequestError:
            status, text = self._refuse("INVALID_REQUEST")
        except Exception:  # The transaction has been rolled back. The body says nothing about the exception.
            status, text = self._refuse("SYSTEM_ERROR")
        return status, sent, text.encode()

    def _answer(self, path: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, str]:
        if len(body) > self.longest_body(path):
            return self._refuse("SYSTEM_ERROR")  # Nobody has read it, so nothing final may be said of it.
        if not self._is_authentic(headers, body):
            return self._refuse("INVALID_SIGNATURE")
        if self.broken:
            raise RuntimeError("the wallet is out of order")
        if path in BATCH_PATHS:
            return 200, self._answer_batch(self._parse(body))
        reply = self._carry_out(self._read(PATHS[path], self._parse(body), body))
        return self._status(reply), self._render(reply)

    def _refuse(self, code: str) -> tuple[int, str]:
        reply = Reply(code)
        return self._status(reply), self._render(reply)

    def _status(self, reply: Reply) -> int:
        """The operator must always answer with HTTP 200 (spec §4.1)."""
        return 200

    def longest_body(self, path: str) -> int:
        """Return how many bytes a body may have (decision 0010)."""
        return MAX_BATCH if path in BATCH_PATHS else MAX_BODY

    def _render(self, reply: Reply) -> str:
        success = reply.outcome == SUCCESS
        said = ['"type":"SUCCESS"'] if success else ['"type":"ERROR"', f'"code":"{reply.outcome}"']
        if reply.cents is not None:
            said.append(f'"balance":{self._render_balance(reply.cents)}')
        if reply.at_millis is not None:
            said.append(f'"timestamp":{reply.at_millis}')
        return "{" + ",".join(said) + "}"

    def _render_balance(self, cents: int) -> str:
        """Two decimals, digit for digit (decision 0012): `cents / 100` would be a float."""
        units, rest = divmod(abs(cents), 100)
        return f"{'-' if cents < 0 else ''}{units}.{rest:02}"

    # --- The signature (decision 0011) --------------------------------------------------------------------------------

    def _is_authentic(self, headers: list[tuple[str, str]], body: bytes) -> bool:
        header = self._signature(headers)
        if header is None:
            return False
        try:
            signature = self._decode_signature(header)
        except ValueError:
            return False
        return any(self._verifies(key, signature, body) for key in list(self.public_keys))

    def _signature(self, headers: list[tuple[str, str]]) -> str | None:
        """Return the header's value; None if it is sent twice, because two readers could take different ones."""
        values = [value for name, value in headers if name.lower() == self.signature_header]
        return values[0] if len(values) == 1 else None

    def _decode_signature(self, header: str) -> bytes:
        """Read Base64 of either alphabet, padded or not."""
        text = header.strip().rstrip("=").replace("-", "+").replace("_", "/")
        return b64decode(text + "=" * (-len(text) % 4), validate=True)

    def _verifies(self, key: RSAPublicKey, signature: bytes, body: bytes) -> bool:
        """RSA-SHA256 over the bytes as they arrived: after parsing and writing they would be different bytes."""
        try:
            key.verify(signature, body, PKCS1v15(), SHA256())
        except InvalidSignature:
            return False
        return True

    # --- Reading (decision 0010) --------------------------------------------------------------------------------------

    def _parse(self, body: bytes) -> object:
        """Read strict JSON: another parser may read a malformed body differently."""
        try:
            text = body.decode("utf-8")  # json.loads(body) would take UTF-16 as well.
            self._check_depth(text)
            value: object = json.loads(
                text,
                parse_int=Number,
                parse_float=Number,
                parse_constant=self._refuse_constant,
                object_pairs_hook=self._object,
            )
        except (ValueError, RecursionError) as unreadable:
            raise InvalidRequestError("the body is no JSON") from unreadable
        return value

    def _check_depth(self, text: str) -> None:
        depth = 0
        for token in re.findall(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', text, re.DOTALL):
            depth += (token in "[{") - (token in "]}")
            if depth > MAX_LEVELS:
                raise InvalidRequestError("too many levels")

    def _refuse_constant(self, name: str) -> object:
        """Python's parser accepts NaN and Infinity, JSON does not."""
        raise InvalidRequestError(name)

    def _object(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        members = dict(pairs)
        if len(members) != len(pairs):
            raise InvalidRequestError("a member stands twice")
        return members

    def _read(self, operation: str, document: object, body: bytes) -> Call:
        if not isinstance(document, dict):
            raise InvalidRequestError("no object")
        player_id = self._read_id(document.get("player_id"), MAX_ID)
        if operation == "player-balance":
            return Call(operation, player_id)
        self._check_shape(operation, document)
        action = self._read_action(operation, document)
        bet_id = self._optional_id(document, MAX_ID, "action_id", "bet_id", "reference_id")
        tx_id = self._optional_id(document, MAX_TX_ID, "tx_id", "transaction_id")
        cents = 0 if operation == "rollback" else self._read_amount(operation, action, document)
        digest = sha256(body).hexdigest()
        call = Call(operation, player_id, bet_id, tx_id, action, cents, document.get("instance_id"), digest)
        if bet_id is None and (tx_id is None or not call.is_claim):
            raise InvalidRequestError("no bet")
        return call

    def _check_shape(self, operation: str, document: dict[str, object]) -> None:
        """A body must have the form of its path's calls, because the signature does not cover the path."""
        if "action" in document:
            fits = isinstance(document["action"], dict if operation == "deposit" else str)
        else:
            fits = ("won" in document) == (operation == "deposit")
        if not fits:
            raise InvalidRequestError(f"this is no {operation}")

    def _read_action(self, operation: str, document: dict[str, object]) -> str:
        if "action" not in document:
            return "BET"
        action = document["action"]
        if isinstance(action, dict):
            action = action.get("type")
        if action not in (("BET", "FREE_BET_CLAIM", "JACKPOT") if operation == "deposit" else ("BET", "RAIN")):
            raise InvalidRequestError("an unknown action")
        return str(action)

    def _read_amount(self, operation: str, action: str, document: dict[str, object]) -> int:
        """Read whole cents: 500 and 500.0, but not "500", 5.5, 5e2, true or -1."""
        names = ("amount", "wager") if operation == "withdraw" else ("amount", "won", "action.won")
        value = self._first(document, *names)
        digits = re.fullmatch(r"(-?0|[1-9][0-9]{0,15})(\.0+)?", value) if isinstance(value, Number) else None
        if digits is None or int(digits[1]) > MAX_CENTS:
            raise InvalidRequestError("no amount in cents")
        cents = int(digits[1])
        if operation == "withdraw" and cents == 0:
            raise InvalidRequestError("a withdraw of nothing")
        return cents

    def _read_id(self, value: object, longest: int) -> str:
        """Return the id unchanged: trimmed, folded or normalised it could be another player's."""
        if not isinstance(value, str) or isinstance(value, Number):
            raise InvalidRequestError("an id is a string")
        if not value.strip() or len(value) > longest or re.search("[\0\ud800-\udfff]", value):
            raise InvalidRequestError("an id is blank, too long, or nothing that a database keeps")
        return value

    def _optional_id(self, document: dict[str, object], longest: int, *names: str) -> str | None:
        value = self._first(document, *names)
        return None if value is ... else self._read_id(value, longest)

    def _first(self, document: dict[str, object], *names: str) -> object:
        """Return the value of the first of *names* that is present, null included; `...` if all are missing."""
        for name in names:
            outer, _, inner = name.partition(".")
            place = document.get(outer) if inner else document
            if isinstance(place, dict) and (inner or outer) in place:
                value: object = place[inner or outer]
                return value
        return ...

    # --- The order of checks (decision 0014) --------------------------------------------------------------------------

    def _carry_out(self, call: Call) -> Reply:
        """Return the reply of the first check that has one, and commit its changes, refusals included."""
        if self._is_foreign(call):
            raise InvalidRequestError("another operator's instance")
        with self._transaction():
            case = self._case(call)
            outcome = next(outcome for ask in self._questions() if (outcome := ask(case)) is not None)
            return self._reply(case, outcome)

    def _questions(self) -> Sequence[Callable[[Case], str | None]]:
        return self._ask_body, self._ask_identity, self._ask_player, self._ask_table

    def _case(self, call: Call) -> Case:
        bet = None if call.is_claim or call.bet_id is None else self._find_bet(self._bet_key(call))
        if call.bet_id is not None:
            call = replace(call, tx_id=call.tx_id or self._derived_tx_id(call, bet))
        account, known = self._find_account(call.player_id), self._find_call(*self._identity(call))
        return Case(call, self.clock_millis(), account, bet, known)

    def _derived_tx_id(self, call: Call, bet: Bet | None) -> str:
        """Make the tx_id of a body without one. A rollback gets its withdraw's."""
        if call.operation == "rollback" and bet is not None:
            return bet.tx_id
        operation = "withdraw" if call.operation == "rollback" else call.operation
        return f"{operation}:{call.action.lower()}:{call.bet_id}"

    def _identity(self, call: Call) -> tuple[str, str | None]:
        """What makes two calls the same: never the tx_id alone, because a rollback has its withdraw's."""
        return call.operation, call.tx_id

    def _bet_key(self, call: Call) -> str:
        """The bet_id alone identifies a bet, not its round, player or action."""
        return str(call.bet_id)

    def _ask_body(self, case: Case) -> str | None:
        """Check 1: is it its withdraw's own body? The signature does not cover the path (decision 0011)."""
        return "INVALID_REQUEST" if self._is_its_withdraw(case) else None

    def _is_foreign(self, call: Call) -> bool:
        """A service may sign for all its operators with one key, so withdraws and claims must name an instance."""
        if self.instances is None or not (call.operation == "withdraw" or call.is_claim):
            return False
        return not isinstance(call.instance_id, str) or call.instance_id not in self.instances

    def _is_its_withdraw(self, case: Case) -> bool:
        return case.call.operation == "rollback" and case.bet is not None and case.bet.digest == case.call.digest

    def _ask_identity(self, case: Case) -> str | None:
        """Check 2: is the identity known with other content, or held by another bet's tombstone?"""
        return None if case.known is None or self._is_same(case.call, case.known) else "DUPLICATE_TRANSACTION"

    def _is_same(self, call: Call, known: Known) -> bool:
        if known.held_for is not None:
            return known.held_for == self._bet_key(call)
        return known.content == self._content(call)

    def _content(self, call: Call) -> str:
        """The values that must agree. Bytes, order of keys, round, game and unknown fields may differ."""
        if call.operation == "rollback":
            return json.dumps([call.player_id, call.bet_id])
        return json.dumps([call.player_id, None if call.is_claim else call.bet_id, call.action, call.cents])

    def _ask_player(self, case: Case) -> str | None:
        """Check 3: is the player unknown? For an unseen bet the answer is final, even if the account is opened."""
        if case.account is not None:
            return None
        if case.bet is None and case.call.operation == "withdraw":
            self._decline(case, "PLAYER_NOT_FOUND")
        if case.bet is None and case.call.operation == "rollback":
            self._entomb(case)
        return "PLAYER_NOT_FOUND"

    def _ask_table(self, case: Case) -> str | None:
        """Check 4: what is the state of the bet?"""
        match case.call.operation:
            case "withdraw":
                return self._withdraw(case)
            case "deposit":
                return self._claim(case) if case.call.is_claim else self._deposit(case)
            case "rollback":
                return self._rollback(case)
        return SUCCESS  # player-balance

    def _withdraw(self, case: Case) -> str:
        if case.bet is None:
            return self._place(case)
        if case.bet.state in ("ROLLED_BACK", "TOMBSTONE"):
            return "BET_ROLLED_BACK"
        if not case.is_repeat:
            return "DUPLICATE_TRANSACTION"
        return case.bet.code or SUCCESS

    def _place(self, case: Case) -> str:
        code = self._refusal(case)
        if code is not None:
            self._decline(case, code)
            return code
        self._debit(case)
        return SUCCESS

    def _debit(self, case: Case) -> None:
        self._move(case, case.call.player_id, -case.call.cents)
        self._remember(case.call)
        self._keep_bet(case, "SPENT" if case.call.action == "RAIN" else "OPEN")

    def _refusal(self, case: Case) -> str | None:
        """Check 5, only for a withdraw that is about to debit."""
        if not self._may_bet(case):
            return "PLAYER_BLOCKED"
        return None if self._has_funds(case) else "INSUFFICIENT_BALANCE"

    def _may_bet(self, case: Case) -> bool:
        return case.account is not None and not case.account.blocked

    def _has_funds(self, case: Case) -> bool:
        return case.account is not None and case.account.cents >= case.call.cents

    def _deposit(self, case: Case) -> str:
        bet = case.bet
        if bet is None or bet.state == "DECLINED":
            return "BET_NOT_FOUND"
        if case.is_repeat:
            return SUCCESS
        if bet.state in ("OPEN", "CLOSED", "ROLLED_BACK") and not self._names_its_player(case.call, bet):
            return "BET_NOT_FOUND"
        if bet.state != "OPEN":
            return NOT_OPEN[bet.state]
        self._settle(case, bet)
        return SUCCESS

    def _settle(self, case: Case, bet: Bet) -> None:
        """Credit the winnings. An amount of 0 is a loss, which settles the bet too."""
        self._move(case, self._credited(case.call, bet), case.call.cents)
        self._remember(case.call)
        self._set_state(bet, "CLOSED")

    def _claim(self, case: Case) -> str:
        """A free bet's or jackpot's winnings: paid once for each tx_id, in any state of any bet."""
        if not case.is_repeat:
            self._move(case, case.call.player_id, case.call.cents)
            self._remember(case.call)
        return SUCCESS

    def _rollback(self, case: Case) -> str:
        bet = case.bet
        if bet is None:
            self._entomb(case)
            return "BET_NOT_FOUND"
        if bet.state in ("TOMBSTONE", "DECLINED") or not self._agrees(case.call, bet):
            return "BET_NOT_FOUND"
        if bet.state == "CLOSED":
            return "BET_ALREADY_CLOSED"
        if bet.state != "ROLLED_BACK":
            self._refund(case, bet)
        return SUCCESS

    def _refund(self, case: Case, bet: Bet) -> None:
        self._move(case, bet.player_id, self._refund_cents(case.call, bet))
        self._remember(case.call)
        self._set_state(bet, "ROLLED_BACK")

    def _agrees(self, call: Call, bet: Bet) -> bool:
        """Whether a rollback names the bet's player and its withdraw."""
        return self._names_its_player(call, bet) and call.tx_id == bet.tx_id

    def _names_its_player(self, call: Call, bet: Bet) -> bool:
        return call.player_id == bet.player_id

    def _credited(self, call: Call, bet: Bet) -> str:
        """The account that was debited. An earlier check ensures that the call names the same player."""
        return bet.player_id

    def _refund_cents(self, call: Call, bet: Bet) -> int:
        """The amount that was taken, not the amount in the rollback."""
        return bet.cents

    # --- The books ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """One writer at a time: the lock among these threads, BEGIN IMMEDIATE among processes on the same file."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _insert(self, table: str, *values: object) -> None:
        self._database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    def _find_account(self, player_id: str) -> Account | None:
        row = self._database.execute("SELECT * FROM accounts WHERE player_id = ?", (player_id,)).fetchone()
        return Account(*row) if row else None

    def _find_bet(self, bet_id: str) -> Bet | None:
        row = self._database.execute("SELECT * FROM bets WHERE bet_id = ?", (bet_id,)).fetchone()
        return Bet(*row) if row else None

    def _find_call(self, operation: str, tx_id: str | None) -> Known | None:
        query = "SELECT content, held_for FROM calls WHERE operation = ? AND tx_id = ?"
        row = self._database.execute(query, (operation, tx_id)).fetchone()
        return Known(*row) if row else None

    def _move(self, case: Case, player_id: str, cents: int) -> None:
        """Move money, at a time after all returned ones. Beyond 64 bits sqlite3 raises, and nothing moves."""
        account = self._find_account(player_id)
        if account is None:
            raise LookupError(player_id)
        at_millis, left = self._time_of_movement(case.now, account.last_millis), account.cents + cents
        update = "UPDATE accounts SET cents = ?, last_millis = ? WHERE player_id = ?"
        self._database.execute(update, (left, at_millis, player_id))
        self._post(case.call, player_id, cents, at_millis)

    def _post(self, call: Call, player_id: str, cents: int, at_millis: int) -> None:
        self._insert("postings", *self._identity(call), player_id, cents, at_millis)

    def _remember(self, call: Call) -> None:
        self._insert("calls", *self._identity(call), self._content(call), None)

    def _keep_bet(self, case: Case, state: str) -> None:
        """Store a debited bet, with its body's digest: on /rollback that body would be a refund."""
        call = case.call
        self._insert("bets", self._bet_key(call), call.player_id, call.tx_id, call.cents, state, None, call.digest)

    def _decline(self, case: Case, code: str) -> None:
        """Make a refusal final: the same withdraw gets the same answer, with any later balance."""
        call = case.call
        self._remember(call)
        self._insert("bets", self._bet_key(call), call.player_id, call.tx_id, call.cents, "DECLINED", code, None)

    def _entomb(self, case: Case) -> None:
        """Stop a late withdraw: hold the bet and its withdraw's tx_id, unless another bet has that tx_id."""
        call = case.call
        if self._find_call("withdraw", call.tx_id) is None:
            self._remember(call)
            self._insert("calls", "withdraw", call.tx_id, "", self._bet_key(call))
            self._insert("bets", self._bet_key(call), call.player_id, call.tx_id, 0, "TOMBSTONE", None, None)

    def _set_state(self, bet: Bet, state: str) -> None:
        self._database.execute("UPDATE bets SET state = ? WHERE bet_id = ?", (state, bet.bet_id))

    # --- The reply (decision 0012) ------------------------------------------------------------------------------------

    def _reply(self, case: Case, outcome: str) -> Reply:
        """Read the account of the player that the call names, still in the transaction."""
        account = self._find_account(case.call.player_id)
        if account is None or outcome == "PLAYER_NOT_FOUND":
            return Reply(outcome)
        return Reply(outcome, self._told_cents(case, account), self._time_of_read(case.now, account.last_millis))

    def _told_cents(self, case: Case, account: Account) -> int:
        """Today's balance, for a repeat as well."""
        return account.cents

    def _time_of_movement(self, now: int, last_millis: int) -> int:
        return max(now, last_millis + 1)

    def _time_of_read(self, now: int, last_millis: int) -> int:
        """Never earlier than the balance in the same reply."""
        return max(now, last_millis)

    # --- Batches of deposits (decision 0010) --------------------------------------------------------------------------

    def _answer_batch(self, document: object) -> str:
        items = document.get("bets") if isinstance(document, dict) else document
        if not isinstance(items, list) or len(items) > MAX_ITEMS:
            raise InvalidRequestError("no batch")
        until = time.monotonic() + BATCH_SECONDS
        answers = [self._answer_item(item) for item in items if time.monotonic() < until]
        return f"[{','.join(filter(None, answers))}]"

    def _answer_item(self, item: object) -> str | None:
        """Process one deposit; None after a failure, because an item without an answer is sent again."""
        try:
            call = self._read("deposit", item, b"")
            tx_id, reply = call.tx_id or self._derived_tx_id(call, None), self._carry_out(call)
        except InvalidRequestError:
            sent = item.get("tx_id") if isinstance(item, dict) else None
            tx_id, reply = str(sent or ""), Reply("INVALID_REQUEST")
        except Exception:
            return None
        return f'{{"tx_id":{json.dumps(tx_id)},{self._render(reply)[1:]}'


class WalletServer(ThreadingHTTPServer):
    """A thread for each connection."""

    daemon_threads = True
    request_queue_size = 128  # Python's own 5 loses connections when fifty calls come at once.
    wallet: PlainWallet

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not log a caller that disconnects or is slow."""


class Webhooks(BaseHTTPRequestHandler):
    """HTTP/1.1 with kept connections."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    wbufsize = -1  # Headers and body are sent together; otherwise the body would wait for an acknowledgement.
    disable_nagle_algorithm = True
    error_content_type = "application/json"
    error_message_format = '{"type":"ERROR","code":"INVALID_REQUEST"}'
    server: WalletServer

    def answer(self) -> None:
        """Read a request and let the wallet answer it."""
        try:
            body = b"".join(self._kept())
        except ValueError:
            return self.send_error(400)
        wallet = self.server.wallet
        status, headers, reply = wallet.handle(self.command, self.path, self.headers.items(), body)
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(reply))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply)
        return None

    do_POST = do_GET = do_HEAD = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer  # noqa: N815

    def _kept(self) -> Iterator[bytes]:
        """Yield the body up to a piece beyond the limit, and discard more, so that the caller reads the reply."""
        longest, size = self.server.wallet.longest_body(self.path), 0
        for piece in self._pieces():
            if size <= longest:
                yield piece
            size += len(piece)
            if size > 16 * MAX_BATCH:
                self.close_connection = True
                return

    def _pieces(self) -> Iterator[bytes]:
        lengths, coding = set(self.headers.get_all("Content-Length", [])), self.headers.get("Transfer-Encoding")
        if coding is None and len(lengths) < 2:
            yield from self._exactly(self._number(lengths.pop() if lengths else "0", 10))
            return
        if coding is None or coding.lower() != "chunked" or lengths:
            raise ValueError("it does not say how long the body is, or twice")
        while size := self._number(self._line().partition(";")[0].strip(), 16):
            yield from self._exactly(size)
            self._line()
        while self._line():
            pass  # Trailers.

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self.rfile.read(min(size, 65_536))
            if not piece:
                raise ConnectionError("the caller hung up within the body")
            yield piece
            size -= len(piece)

    def _line(self) -> str:
        line = self.rfile.readline(1_000)
        if not line.endswith(b"\n"):
            raise ValueError("a line without an end")
        return line.decode("latin-1").strip()

    def _number(self, text: str, base: int) -> int:
        if not re.fullmatch("[0-9a-fA-F]{1,15}", text):
            raise ValueError("no length")
        return int(text, base)

    def handle_expect_100(self) -> bool:
        """Tell the caller to continue: flush, because buffered bytes would make it wait."""
        self.send_response_only(100)
        self.end_headers()
        self.wfile.flush()
        return True

    def log_message(self, *_: object) -> None:
        """Log nothing. Put your own log here, without signatures."""


def serve(wallet: PlainWallet, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """Serve *wallet* in a new thread until `shutdown()` and `server_close()`. `server_port` is the port."""
    server = WalletServer((host, port), Webhooks)
    server.wallet = wallet
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def post(url: str, key: RSAPrivateKey, call: dict[str, object]) -> None:
    """Play the service: sign the body, post it, and print the reply."""
    body = json.dumps(call).encode()
    signature = urlsafe_b64encode(key.sign(body, PKCS1v15(), SHA256())).rstrip(b"=").decode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json", "Signature": signature})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
        reply = json.load(response, parse_float=str)
    print(request.selector, reply["type"], reply["balance"])


def demo() -> None:
    """Serve a wallet on a free port and play a bet against it."""
    key = generate_private_key(65537, 2048)  # The service keeps this key and gives you its public half.
    wallet = PlainWallet([key.public_key()])
    wallet.open_account("ann", 10_000)
    server = serve(wallet)
    url = f"http://127.0.0.1:{server.server_port}"
    bet: dict[str, object] = {"player_id": "ann", "amount": 500, "action": "BET", "action_id": "b1", "tx_id": "w1"}
    post(f"{url}/withdraw", key, bet)
    post(f"{url}/withdraw", key, bet)  # Sent again: one debit.
    post(f"{url}/deposit", key, bet | {"amount": 1250, "action": {"type": "BET", "round_id": "r1"}, "tx_id": "d1"})
    server.shutdown()
    server.server_close()
    wallet.close()


def read_public_key(file: str) -> RSAPublicKey:
    """Read the service's public key, or end with one line that says what to do."""
    advice = "Pass the public half of the key that the service signs with."
    try:
        key = load_pem_public_key(Path(file).read_bytes())
    except OSError as error:
        raise SystemExit(f"{file} cannot be read ({error.strerror}). {advice}") from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPublicKey):
        raise SystemExit(f"{file} does not hold an RSA public key. {advice}")
    return key


def serve_for_good(public_key: str, port: str, *player_ids: str) -> None:
    """Serve a wallet in memory on this machine until Ctrl-C; each player has 100.00."""
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise SystemExit(f"Port {port} is invalid. Use a number from 0 to 65535.")
    wallet = PlainWallet([read_public_key(public_key)])
    for player_id in player_ids:
        wallet.open_account(player_id, 10_000)
    try:
        server = serve(wallet, port=int(port))
    except OSError as error:
        raise SystemExit(f"Port {port} cannot be used ({error.strerror}). Pass a port that is free.") from None
    print(f"http://127.0.0.1:{server.server_port} until Ctrl-C", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.shutdown()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        raise SystemExit("Usage: python wallet_by_hand.py service.pub.pem PORT PLAYER...")
    if sys.argv[1:]:
        serve_for_good(*sys.argv[1:])
    else:
        demo()

# Prints:
# /withdraw SUCCESS 95.00
# /withdraw SUCCESS 95.00
# /deposit SUCCESS 107.50
