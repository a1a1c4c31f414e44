"""
One grant of a campaign: to whom, how much, and under which reference id.

All of it follows from the name of the campaign and the row of the player, and nothing from the row's number or from
chance. So a repeat of any kind, from any process, asks the service for the same grant again.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple
from unicodedata import category
from urllib.parse import quote, unquote

from game_operator.backoffice.journal_records import Item
from game_operator.codes import GRANT_MESSAGES, GrantErrorCode
from game_operator.errors import CampaignRefusedError, shown
from game_operator.models import GrantRequest
from game_operator.models.operator_api import MAX_ID_CHARACTERS, refusal_of

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,40}")
#: What remains of a reference id that is too long, before its digest.
_KEPT_CHARACTERS: Final = 67
_DIGEST_CHARACTERS: Final = 32
_SHORTENED: Final = re.compile(r".{67}~[0-9a-f]{32}", re.DOTALL)
#: The categories of spaces and of characters that only format others, such as a byte order mark.
_INVISIBLE: Final = ("Cf", "Zl", "Zp", "Zs")


class Grant(NamedTuple):
    """
    Free bets for one player on one game instance (spec §2.2).

    Attributes:
        player_id: The player.
        instance_id: The game instance.
        count: How many free bets, 1 to 50.
        wager_amount_cents: The wager of each, in cents of the instance's currency.
        expire_duration_millis: For how long they can be played, in milliseconds.
    """

    player_id: str
    instance_id: str
    count: int  # type: ignore[assignment]  # The spec's name; tuple.count is of no use here.
    wager_amount_cents: int
    expire_duration_millis: int

    @property
    def exposure_cents(self) -> int:
        """Count times wager: what is staked for the player. The player can win more."""
        return self.count * self.wager_amount_cents

    @property
    def key(self) -> str:
        """The key of the grant within its campaign, ``PLAYER/INSTANCE``: a player gets one grant on each instance."""
        player_id = self.player_id
        if "%" in player_id or "/" in player_id:
            player_id = player_id.replace("%", "%25").replace("/", "%2F")
        return f"{player_id}/{_escaped(self.instance_id)}"

    @property
    def terms(self) -> tuple[int, int, int]:
        """What the key does not say."""
        return self.count, self.wager_amount_cents, self.expire_duration_millis

    def request(self, campaign: str) -> GrantRequest:
        """Return what the service is asked for; it is the same each time."""
        return GrantRequest.model_construct(**self._asdict(), reference_id=reference_id_of(campaign, self.player_id))


@lru_cache(1_024)
def _escaped(instance_id: str) -> str:
    return quote(instance_id, safe="")


def grant_of(key: str, terms: Iterable[int]) -> Grant:
    """Return the grant with a key and terms."""
    player_id, _, instance_id = key.partition("/")
    return Grant(player_id.replace("%2F", "/").replace("%25", "%"), unquote(instance_id), *terms)


def grant_in(item: Item) -> Grant:
    """Return the grant that an item of the journal is about."""
    return grant_of(item.key, item.values["terms"])


def check_name(name: str) -> str:
    """Return the *name* of a campaign if it can be one: 1 to 40 of A-Z, a-z, digits, ".", "_" and "-"."""
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise CampaignRefusedError(
            f"The campaign's name {shown(name)} is invalid.",
            remedy="Use 1 to 40 letters A-Z and a-z, digits, '.', '_' and '-': each reference id begins with it.",
        )
    return name


def reference_id_of(campaign: str, player_id: str) -> str:
    """
    Return the reference id of a grant: ``CAMPAIGN/PLAYER``, at most 100 characters (spec §8).

    Of a longer one, the first 67 characters remain, then ``~`` and the first 32 hex digits of the SHA-256 of the whole
    in UTF-8. The service keeps reference ids for each instance (spec §2.2), so a player may have the same on several.
    """
    whole = f"{campaign}/{player_id}"
    if len(whole) <= MAX_ID_CHARACTERS:
        return whole
    return f"{whole[:_KEPT_CHARACTERS]}~{sha256(whole.encode()).hexdigest()[:_DIGEST_CHARACTERS]}"


@lru_cache(4_096)
def limit_broken_by(count: int, wager_amount_cents: int, expire_duration_millis: int) -> str:
    """Return which limit of spec §8 these numbers break, in the service's words; "" if none."""
    request = Grant("p", "i", count, wager_amount_cents, expire_duration_millis).request("any")
    code = refusal_of(request)
    if code is None:
        return ""
    name = next(name for name in Grant._fields[2:] if name.partition("_")[0].upper() in code)
    return f"{GRANT_MESSAGES[code]} ({code}): {name} is {shown(getattr(request, name))}."


def problem_of_player(campaign: str, player_id: str) -> str:
    """
    Return why *player_id* cannot be granted anything, or "".

    Such an id is a mistake in the list: the service would grant, and no player would ever see the free bets.
    """
    # Nearly all ids take this way.
    if player_id.isprintable() and player_id.strip() == player_id != "" and len(player_id) <= MAX_ID_CHARACTERS // 2:
        return ""
    kinds = [category(letter) for letter in player_id]
    is_padded = not {*kinds[:1], *kinds[-1:]}.isdisjoint(_INVISIBLE)
    problems = (
        (not player_id.strip(), "The player id is blank."),
        ("Cs" in kinds, "The player id is not valid UTF-8."),
        ("Cc" in kinds, "The player id has a control character."),
        (is_padded, "The player id begins or ends with a space or an invisible character."),
        (len(player_id) > MAX_ID_CHARACTERS, f"{GRANT_MESSAGES[GrantErrorCode.PLAYER_ID_TOO_LONG]}."),
        (
            _SHORTENED.fullmatch(f"{campaign}/{player_id}") is not None,
            "The reference id would look like the shortened one of another player. Grant to this player by hand.",
        ),
    )
    return next((f"{text} It is {shown(player_id)}." for is_so, text in problems if is_so), "")
