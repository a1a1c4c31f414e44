"""What a second look at a finding may not say: each wallet here was once blamed for something else than its mistake."""

from wallet_by_hand import Account, Case, PlainWallet

from testkit.tests.certifier.findings import found
from testkit.tests.certifier.harness import certified


class RepeatsOldBalancesWithoutRollbacks(PlainWallet):
    """Answers repeats with the balance of before, and no rollback at all."""

    def _rollback(self, case: Case) -> str:
        raise RuntimeError

    def _told_cents(self, case: Case, account: Account) -> int:
        return account.cents + (case.call.cents if case.is_repeat else 0)


def test_what_the_certifier_could_not_give_back_is_not_missing() -> None:
    """The small withdraw that tells two balances apart is not refunded by a wallet that fails at rollbacks."""
    reasons = found(certified(RepeatsOldBalancesWithoutRollbacks, only=["A01", "B01", "B04", "B13", "B15"]))
    assert "returned a balance of" in reasons["B01"]
    assert [each for each in reasons.values() if "too little" in each] == []
