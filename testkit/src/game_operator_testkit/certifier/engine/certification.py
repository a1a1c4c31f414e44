"""What a certification is made with: the service's key, two players, what is assumed of the wallet, what is played."""

import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from threading import Event
from typing import Final, Required, TypeAlias, TypedDict

from game_operator.errors import ConfigurationError, shown
from game_operator.models.webhooks import LONGEST_ID, problem_of_id
from game_operator.profile import Profile
from game_operator_testkit.certifier.engine.supplies import Supplies
from game_operator_testkit.certifier.report.verdicts import Verdict
from game_operator_testkit.provider.keys import SigningKey

#: Called with each verdict, and with how many scenarios there are.
OnVerdict: TypeAlias = Callable[[Verdict, int], object]

#: All ids begin with it, and some are of the longest length.
_RUN_ID: Final = re.compile("[A-Za-z0-9_-]{1,64}")


class Settings(TypedDict, total=False):
    """What may be said of a certification beside the service's key: ``Certification`` says what each is."""

    player_id: Required[str]
    other_player_id: Required[str]
    profile: Profile
    only: Iterable[str]
    skip: Iterable[str]
    supplies: Supplies
    instance_id: str | None
    game: str | None
    deadline: float
    on_verdict: OnVerdict | None
    run_id: str | None
    stopping: Event | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Certification:
    """
    What a certification is made with.

    Attributes:
        signing_key: The service's private key, whose public half the wallet has.
        player_id: A test player with at least 10.00, in no other use meanwhile.
        other_player_id: Another one.
        profile: What is assumed of the wallet.
        only: Groups (``B``) or ids (``B05``) to be played; all if empty.
        skip: Groups or ids to be left out.
        supplies: What more can be done to the wallet; scenarios that need it are skipped without.
        instance_id: The game instance that is played; a wallet that knows its instances refuses others.
        game: The game that is played, for a wallet that knows its games; a made-up one if None.
        deadline: Seconds for the whole run; what is not played by then failed.
        on_verdict: Called with each verdict as soon as there is one, and with how many scenarios are played.
        run_id: What all ids of this run begin with; a new one if None. Runs with the same one are no fresh runs, and a
            reconciliation knows test bets by a new one alone.
        stopping: Once it is set, from a signal handler or another thread, the call under way is waited for, money is
            put back, and the report says that it was stopped.
    """

    signing_key: SigningKey = field(repr=False)
    player_id: str
    other_player_id: str
    profile: Profile = field(default_factory=Profile)
    only: Iterable[str] = ()
    skip: Iterable[str] = ()
    supplies: Supplies = field(default_factory=Supplies)
    instance_id: str | None = None
    game: str | None = None
    deadline: float = 600.0
    on_verdict: OnVerdict | None = None
    run_id: str | None = None
    stopping: Event | None = None

    def check(self) -> None:
        """
        Check what can be checked without the wallet.

        Raises:
            ConfigurationError: A setting cannot work.
        """
        if self.run_id is not None and not _RUN_ID.fullmatch(self.run_id):
            raise ConfigurationError(f"run_id {shown(self.run_id)} cannot be used. Pass 1 to 64 of A-Z, 0-9, _ and -.")
        if self.player_id == self.other_player_id:
            raise ConfigurationError("Both players are the same. Pass two players, each with money.")
        ids = {"player_id": self.player_id, "other_player_id": self.other_player_id, "game": self.game}
        for setting, value in ids.items():
            if value is not None and (problem := problem_of_id(value, LONGEST_ID)):
                name = setting.removesuffix("_id").replace("_", " ")
                raise ConfigurationError(f"The {name} {shown(value)} is invalid: it {problem}.", setting=setting)
        if self.profile.parse is not None:
            raise ConfigurationError(
                "The profile reads bodies by a function of your own, so they cannot be written. Pass a profile that "
                "names the fields instead."
            )


def new_run_id() -> str:
    """Return what all ids of a new run begin with; a reconciliation knows test bets by it."""
    return f"certify-{secrets.token_hex(4)}"


def unusual(profile: Profile) -> dict[str, str]:
    """Return the settings of *profile* that are not the usual, in words; of the fields, those with other names."""
    usual = Profile()
    names = {name: names for name, names in profile.fields.items() if usual.fields.get(name) != names}
    settings = (each.name for each in fields(Profile) if each.compare and each.name != "fields")
    found = {name: str(getattr(profile, name)) for name in settings if getattr(profile, name) != getattr(usual, name)}
    return found | ({"fields": str(names)} if names else {})
