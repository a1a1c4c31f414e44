"""
A tiny wallet, written from the decision note and not from the code: what each call must be answered, and no more.

It knows no times, records or anomalies. Bets are small dictionaries, and money is a number for each player.
"""

from dataclasses import dataclass, field
from typing import Any

from game_operator.models.webhooks import DepositCall, MovingCall, RollbackCall, WithdrawCall


@dataclass
class WalletModel:
    """Players by name with their cents; everything else begins empty."""

    money: dict[str, int]
    lenient: bool = False
    own_tx_ids: bool = False
    bets: dict[str, dict[str, Any]] = field(default_factory=dict)  # Any: facts of several types about a bet.
    #: Withdraws and deposits by (operation, tx_id): their content, and what they were answered.
    seen: dict[tuple[str, str], tuple[tuple[Any, ...], str | None]] = field(default_factory=dict)
    #: The tx_ids that tombstones keep: of which bet.
    kept: dict[str, str] = field(default_factory=dict)
    #: What late calls have left, by bet, kind and tx_id: what is due by each, and what was paid for it.
    late: dict[tuple[str, str, str], list[int | None]] = field(default_factory=dict)
    #: The bets that claims name.
    claimed: set[str] = field(default_factory=set)

    def copy(self) -> "WalletModel":
        """Return a wallet that goes its own way."""
        bets = {bet_id: dict(bet) for bet_id, bet in self.bets.items()}
        money, seen, kept = dict(self.money), dict(self.seen), dict(self.kept)
        late = {key: list(kept) for key, kept in self.late.items()}
        return WalletModel(money, self.lenient, self.own_tx_ids, bets, seen, kept, late, set(self.claimed))

    def answer(self, call: MovingCall) -> str | None:
        """Apply *call* and return its code, or None for SUCCESS."""
        if isinstance(call, WithdrawCall):
            return self._withdraw(call)
        if isinstance(call, RollbackCall):
            return self._rollback(call)
        return self._claim(call) if call.is_claim else self._deposit(call)

    def repair(self, call: DepositCall | RollbackCall) -> bool:
        """Settle a bet without a call of the provider; return whether that is allowed."""
        bet = self.bets.get(call.bet_id or "")
        if bet is None or bet["state"] != "OPEN" or bet["player"] != call.player_id or call.bet_id in self.claimed:
            return False
        is_refund = isinstance(call, RollbackCall)
        bet["got"] = bet["wager"] if isinstance(call, RollbackCall) else call.amount_cents
        bet["state"], bet["by us"], bet["paid"] = "ROLLED_BACK" if is_refund else "CLOSED", True, 0
        self.money[bet["player"]] += bet["got"]
        return True

    def pay(self, late: tuple[str, str, str]) -> int | None:
        """Pay what is owed by a late call, and return it; None if nothing is paid."""
        bet, (due_cents, paid_cents) = self.bets[late[0]], self.late[late]
        owed_cents: int = (due_cents or 0) - bet["got"] - bet["paid"]
        if paid_cents is not None or owed_cents == 0 or self.money[bet["player"]] < -owed_cents:
            return None
        self.money[bet["player"]] += owed_cents
        bet["paid"] += owed_cents
        self.late[late][1] = owed_cents
        return owed_cents

    def _note_late(self, bet: dict[str, Any], call: DepositCall | RollbackCall, tx_id: str, due_cents: int) -> None:
        if bet.get("by us"):
            self.late.setdefault((call.bet_id or "", f"late_{call.operation}", tx_id), [due_cents, None])

    def _withdraw(self, call: WithdrawCall) -> str | None:
        key, content = ("withdraw", call.tx_id), (call.player_id, call.bet_id, call.action, call.amount_cents)
        # Question 2.
        if key in self.seen and self.seen[key][0] != content:
            return "DUPLICATE_TRANSACTION"
        if self.kept.get(call.tx_id, call.bet_id) != call.bet_id:
            return "DUPLICATE_TRANSACTION"
        # Question 3, which a known repeat skips.
        if key not in self.seen and call.player_id not in self.money:
            if call.bet_id not in self.bets:
                self._decline(call, key, content, "PLAYER_NOT_FOUND")
            return "PLAYER_NOT_FOUND"
        # The table.
        bet = self.bets.get(call.bet_id)
        if bet is not None:
            if bet["state"] in ("ROLLED_BACK", "TOMBSTONE"):
                return "BET_ROLLED_BACK"
            return self.seen[key][1] if key in self.seen else "DUPLICATE_TRANSACTION"
        # Question 5.
        if self.money[call.player_id] < call.amount_cents:
            return self._decline(call, key, content, "INSUFFICIENT_BALANCE")
        self.money[call.player_id] -= call.amount_cents
        self.seen[key] = (content, None)
        state = "SPENT" if call.action == "RAIN" else "OPEN"
        self.bets[call.bet_id] = {
            "state": state,
            "player": call.player_id,
            "tx_id": call.tx_id,
            "wager": call.amount_cents,
        }
        return None

    def _decline(self, call: WithdrawCall, key: tuple[str, str], content: tuple[Any, ...], code: str) -> str:
        self.seen[key] = (content, code)
        self.bets[call.bet_id] = {"state": "DECLINED", "player": call.player_id, "tx_id": call.tx_id, "wager": 0}
        return code

    def _deposit(self, call: DepositCall) -> str | None:
        key, content = ("deposit", call.tx_id), (call.player_id, call.bet_id, call.action, call.amount_cents)
        if key in self.seen:
            return None if self.seen[key][0] == content else "DUPLICATE_TRANSACTION"
        if call.player_id not in self.money:
            return "PLAYER_NOT_FOUND"
        bet = self.bets.get(call.bet_id or "")
        if bet is None or bet["state"] == "DECLINED":
            return "BET_NOT_FOUND"
        if bet["state"] == "SPENT":
            return "BET_ALREADY_CLOSED"
        if bet["state"] == "TOMBSTONE":
            return "BET_ROLLED_BACK"
        if bet["player"] != call.player_id:
            return "BET_NOT_FOUND"
        if bet["state"] == "CLOSED" and bet.get("by us") and bet["got"] == call.amount_cents:
            bet["by us"] = False
            self.seen[key] = (content, None)
            return None
        if bet["state"] in ("CLOSED", "ROLLED_BACK"):
            self._note_late(bet, call, call.tx_id, call.amount_cents)
            return "BET_ALREADY_CLOSED" if bet["state"] == "CLOSED" else "BET_ROLLED_BACK"
        bet["state"] = "CLOSED"
        self.seen[key] = (content, None)
        self.money[call.player_id] += call.amount_cents
        return None

    def _claim(self, call: DepositCall) -> str | None:
        key, content = ("deposit", call.tx_id), (call.player_id, call.action, call.amount_cents)
        if key in self.seen:
            known = self.seen[key][0]
            return (
                None if (known[0], *known[-2:]) == content and len(known) == len(content) else "DUPLICATE_TRANSACTION"
            )
        if call.player_id not in self.money:
            return "PLAYER_NOT_FOUND"
        self.seen[key] = (content, None)
        self.money[call.player_id] += call.amount_cents
        self.claimed |= {call.bet_id} if call.bet_id else set()
        return None

    def _rollback(self, call: RollbackCall) -> str | None:
        bet = self.bets.get(call.bet_id)
        tx_id = call.tx_id
        if tx_id is None:
            tx_id = f"withdraw:{call.action.lower()}:{call.bet_id}"
            if bet is not None and bet["tx_id"] and not self.own_tx_ids:
                tx_id = bet["tx_id"]
        key, content = ("rollback", tx_id), (call.player_id, call.bet_id)
        if key in self.seen and self.seen[key][0] != content:
            return "DUPLICATE_TRANSACTION"
        nothing = None if self.lenient else "BET_NOT_FOUND"
        if call.player_id not in self.money:
            nothing = "PLAYER_NOT_FOUND"
        if bet is None:
            return self._tombstone(call, key, content, nothing)
        if bet["state"] in ("TOMBSTONE", "DECLINED"):
            return nothing
        if call.player_id not in self.money:
            return "PLAYER_NOT_FOUND"
        agrees = call.player_id == bet["player"] and (self.own_tx_ids or call.tx_id in (None, bet["tx_id"]))
        if not agrees:
            return "BET_NOT_FOUND"
        if bet["state"] == "CLOSED":
            self._note_late(bet, call, tx_id, bet["wager"])
            return "BET_ALREADY_CLOSED"
        if bet["state"] in ("OPEN", "SPENT"):
            bet["state"] = "ROLLED_BACK"
            self.seen[key] = (content, None)
            self.money[call.player_id] += bet["wager"]
        return None

    def _tombstone(
        self, call: RollbackCall, key: tuple[str, str], content: tuple[Any, ...], code: str | None
    ) -> str | None:
        is_anothers = ("withdraw", key[1]) in self.seen
        if is_anothers and not self.own_tx_ids:
            return code
        self.seen[key] = (content, code)
        if not self.own_tx_ids:
            self.kept[key[1]] = call.bet_id
        withdraws = None if self.own_tx_ids else key[1]
        self.bets[call.bet_id] = {"state": "TOMBSTONE", "player": call.player_id, "tx_id": withdraws, "wager": 0}
        return code


def is_final(call: MovingCall, code: str | None) -> bool:
    """Return whether *code* promises that *call*, unchanged, will never move money."""
    if code is None or code == "SYSTEM_ERROR":
        return False
    if isinstance(call, RollbackCall) and call.tx_id is None and code == "DUPLICATE_TRANSACTION":
        return False  # What it names is known only with its bet, which may come after another bet's tombstone.
    return not (isinstance(call, DepositCall) and code in ("BET_NOT_FOUND", "PLAYER_NOT_FOUND"))
