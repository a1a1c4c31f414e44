"""The profile: every choice about webhooks that the specification leaves open (spec §4.1, §5, §6, §7.1)."""

import copy
import dataclasses
import pickle
import sys
from typing import Any

import pytest
from hypothesis import given, strategies

from game_operator import ConfigurationError, Profile, WithdrawCall
from game_operator.profile import DEFAULT_FIELDS
from game_operator.webhooks import WebhookCall
from tests.support.wire import examples

DEFAULTS: dict[str, Any] = {
    "withdraw_actions": ("BET", "RAIN"),
    "spent_actions": ("RAIN",),
    "claim_types": ("FREE_BET_CLAIM", "JACKPOT"),
    "signature_header": "signature",
    "unauthenticated_status": 200,
    "codes": "extended",
    "allow_zero_withdraw": False,
    "unknown_rollback": "error",
    "rollback_tx_id": "withdraw",
    "early_deposit_code": "BET_NOT_FOUND",
    "duplicate_reply": "current",
    "rollback_may_equal_withdraw": False,
    "deposit_batch": False,
    "max_body_bytes": 65_536,
    "max_batch_bytes": 1_048_576,
    "parse": None,
}

#: Another value for each setting that TOML can tell.
OTHERS: dict[str, Any] = {
    "fields": {"player_id": ("player", "user.id"), "bet_id.rollback": ("ref",), "round_id": ()},
    "withdraw_actions": ("BET", "RAIN", "TIP-2"),
    "spent_actions": (),
    "claim_types": ("gift",),
    "signature_header": "X-Signature",
    "unauthenticated_status": 401,
    "codes": "core",
    "allow_zero_withdraw": True,
    "unknown_rollback": "success",
    "rollback_tx_id": "own",
    "early_deposit_code": "SYSTEM_ERROR",
    "duplicate_reply": "verbatim",
    "rollback_may_equal_withdraw": True,
    "deposit_batch": True,
    "max_body_bytes": 1,
    "max_batch_bytes": 10**9,
}


def parser(operation: str, body: bytes) -> WebhookCall:
    """A parser of the operator's own."""
    return WithdrawCall(player_id="p1", bet_id=body.decode(), amount_cents=1)


def test_defaults() -> None:
    """The defaults are those of the decision notes, and there is no setting besides (docs/decisions/0010 to 0014)."""
    profile = Profile()
    assert {each.name: getattr(profile, each.name) for each in dataclasses.fields(profile) if each.init} == {
        "fields": DEFAULT_FIELDS,
        **DEFAULTS,
    }


@pytest.mark.parametrize("name", OTHERS)
def test_each_setting_can_be_set(name: str) -> None:
    """Whatever is assumed can be overridden without touching the package, and by TOML as well."""
    profile = Profile(**{name: OTHERS[name]})
    found = getattr(profile, name)
    assert found == (OTHERS[name] if name != "fields" else {**DEFAULT_FIELDS, **OTHERS["fields"]})
    assert profile != Profile()
    assert Profile.from_toml(profile.to_toml()) == profile


@pytest.mark.parametrize(
    ("name", "values", "problem"),
    [
        pytest.param("unauthenticated_status", [403, "200", 200.0, None, True], "one of 200, 401", id="status"),
        pytest.param("codes", ["CORE", "", None, 5], "one of 'extended', 'core'", id="codes"),
        pytest.param("unknown_rollback", ["fail", True], "one of 'error', 'success'", id="unknown_rollback"),
        pytest.param("rollback_tx_id", ["none", None], "one of 'withdraw', 'own'", id="rollback_tx_id"),
        pytest.param("early_deposit_code", ["PLAYER_NOT_FOUND"], "one of 'BET_NOT_FOUND'", id="early_deposit_code"),
        pytest.param("duplicate_reply", ["first", None], "one of 'current', 'verbatim'", id="duplicate_reply"),
        pytest.param("allow_zero_withdraw", [1, "true", None], "must be true or false", id="allow_zero_withdraw"),
        pytest.param("rollback_may_equal_withdraw", [0], "must be true or false", id="rollback_may_equal_withdraw"),
        pytest.param("deposit_batch", ["yes"], "must be true or false", id="deposit_batch"),
        pytest.param("max_body_bytes", [0, -1, 1.0, "1", True, None], "whole number above 0", id="max_body_bytes"),
        pytest.param("max_batch_bytes", [0, 10.5], "whole number above 0", id="max_batch_bytes"),
        pytest.param(
            "signature_header",
            ["", " ", "a b", "a:b", "sig\n", "é", None, 5, b"signature"],
            "must be the name of a header",
            id="signature_header",
        ),
        pytest.param("parse", [5, "module:function"], "must be a callable", id="parse"),
        pytest.param(
            "withdraw_actions",
            ["BET", ["BET", ""], ("BET", 5), ("BET", "A:B"), ("BET", "x" * 41), ("BET", "É"), ("BET", "A\n"), None, {}],
            "must be a sequence of words",
            id="withdraw_actions",
        ),
        pytest.param("spent_actions", ["RAIN", (None,)], "must be a sequence of words", id="spent_actions"),
        pytest.param("claim_types", ["JACKPOT", ("a b",)], "must be a sequence of words", id="claim_types"),
        pytest.param("fields", [None, [], "player_id"], "must be a table of names", id="fields"),
    ],
)
def test_values_that_cannot_be(name: str, values: list[object], problem: str) -> None:
    """A setting that cannot work is refused by name, with what it can be."""
    for value in values:
        with pytest.raises(ConfigurationError, match=f"^{name} .*{problem}"):
            Profile(**{name: value})  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param({"withdraw_actions": ("RAIN",)}, "must have BET", id="no BET"),
        pytest.param({"withdraw_actions": ("BET", "bet")}, "differ in case alone", id="two that derive one tx_id"),
        pytest.param({"claim_types": ("BET",)}, "cannot have BET", id="every settled bet a claim"),
        pytest.param({"spent_actions": ("BET",)}, "but BET, not 'BET'", id="bets that are never settled"),
        pytest.param({"fields": {"user_id": ("u",)}}, "fields has no 'user_id'", id="unknown"),
        pytest.param({"fields": {"amount": ("u",)}}, "no 'amount'. Did you mean amount_cents\\?", id="a body's name"),
        pytest.param({"fields": {"player_id.bogus": ("u",)}}, "fields has no 'player_id.bogus'", id="unknown call"),
        pytest.param({"fields": {"player_id": "user"}}, "must be a sequence of names", id="text would be letters"),
        pytest.param({"fields": {"player_id": ("a\nb",)}}, "must be a sequence of names", id="a line's end"),
        pytest.param({"fields": {"player_id": ("\ud800",)}}, "must be a sequence of names", id="a lone surrogate"),
        pytest.param({"fields": {"player_id": ()}}, "player_id must have a name: a withdraw", id="no player"),
        pytest.param(
            {"fields": {"amount_cents": ("sum",)}},
            "does not replace the default of amount_cents.withdraw. Give that one as well",
            id="a name that two calls would not hear of",
        ),
        pytest.param(
            {"fields": {"action.deposit": ("action",), "amount_cents.deposit": ("amount",)}},
            "a withdraw's body could be sent to /deposit",
            id="a deposit that looks like a withdraw",
        ),
        pytest.param(
            {"fields": {"action.deposit": (), "amount_cents.deposit": ("wager", "amount")}},
            "a withdraw's body could be sent to /deposit",
            id="a deposit with nothing of its own",
        ),
    ],
)
def test_what_would_be_mistaken(settings: dict[str, Any], problem: str) -> None:
    """Actions and names that stand for two things, or would never be found, are refused (docs/decisions/0010)."""
    with pytest.raises(ConfigurationError, match=problem.replace(".", r"\.")):
        Profile(**settings)


def test_names_are_laid_over_the_defaults() -> None:
    """What is given replaces its own row alone; an operation's row stands before the general one."""
    profile = Profile(
        fields={"bet_id": ["ref"], "bet_id.rollback": ["cancelled.id"], "round_id.deposit": [], "tx_id": ["a.b.c"]}  # type: ignore[dict-item]  # a list will do
    )
    assert profile.names_of("bet_id", "withdraw") == ("ref",)
    assert profile.names_of("bet_id", "rollback") == ("cancelled.id",)
    assert profile.names_of("player_id", "deposit") == ("player_id",)
    assert profile.names_of("amount_cents", "withdraw") == ("amount", "wager")
    assert profile.names_of("amount_cents", "rollback") == ("amount",)
    assert profile.names_of("round_id", "deposit") == ()
    assert profile.names_of("round_id", "rollback") == ("round_id", "action.round_id")
    assert profile.names_of("colour", "deposit") == ()
    assert profile.names("rollback").paths["bet_id"] == (("cancelled", ("id",)),)
    assert profile.names("deposit").paths["tx_id"] == (("a", ("b", "c")),)


def test_what_tells_a_deposit() -> None:
    """A deposit is known by names that withdraws and rollbacks do not use (docs/decisions/0011)."""
    names = Profile().names("deposit")
    assert names.marks == (("action", ("type",)), ("won", ()), ("action", ("won",)))
    assert (names.holders, names.strangers) == (("action",), ())
    assert Profile().names("rollback").marks == Profile().names("withdraw").marks == names.marks
    assert Profile().names("withdraw").strangers == Profile().names("rollback").strangers == ()
    flat = Profile(fields={"action.deposit": ("type",), "amount_cents.deposit": ("amount", "payout")})
    assert flat.names("deposit").marks == (("type", ()), ("payout", ()))
    assert (flat.names("deposit").holders, flat.names("withdraw").strangers) == ((), ("type",))
    assert flat.names("rollback").strangers == ("type",)
    assert flat.names("player-balance").strangers == ("type",)


def test_a_profile_is_a_value() -> None:
    """Frozen to the bottom, hashable, equal to its copies."""
    given: dict[str, Any] = {"player_id": ["user"]}
    profile = Profile(fields=given, withdraw_actions=["BET"], spent_actions=[], parse=parser)  # type: ignore[arg-type]  # lists
    given["player_id"].append("changed")
    given["bet_id"] = ["changed"]
    assert profile.fields["player_id"] == ("user",)
    assert profile.fields["bet_id"] == DEFAULT_FIELDS["bet_id"]
    assert profile.withdraw_actions == ("BET",)
    with pytest.raises(TypeError):
        profile.fields["player_id"] = ("changed",)  # type: ignore[index]  # that is the point
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.codes = "core"  # type: ignore[misc]  # that is the point
    twins = [pickle.loads(pickle.dumps(profile, protocol)) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    for twin in (*twins, copy.copy(profile), copy.deepcopy(profile)):
        assert (twin, hash(twin), repr(twin)) == (profile, hash(profile), repr(profile))
        assert twin.names("withdraw") == profile.names("withdraw")
    assert len({profile, *twins}) == 1
    assert hash(profile) != hash(Profile())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(Profile(), "Profile()", id="the defaults"),
        pytest.param(Profile(codes="core", deposit_batch=True), "Profile(codes='core', deposit_batch=True)", id="two"),
    ],
)
def test_a_profile_is_shown_by_what_is_unusual_in_it(value: Profile, text: str) -> None:
    """It is the default of parameters, and signatures stay short. The text makes an equal value."""
    assert repr(value) == text
    assert eval(text, {"Profile": Profile}) == value


def test_a_parser_stays_out_of_toml() -> None:
    """It has no text: whoever writes the profile down passes it again."""
    profile = Profile(parse=parser, codes="core")
    assert Profile.from_toml(profile.to_toml()) == dataclasses.replace(profile, parse=None)
    assert Profile.from_toml("") == Profile()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("codes = ", "is not TOML: Invalid value", id="broken"),
        pytest.param("a = " + "[" * 100_000, "is not TOML", id="endless depth"),
        pytest.param("max_body_bytes = " + "9" * 5000, "is not TOML|whole number", id="endless number"),
        pytest.param("colour = 1", "A profile has no 'colour'. It can have .*withdraw_actions", id="unknown"),
        pytest.param("_names = 'a'", "A profile has no '_names'", id="what is worked out"),
        pytest.param("codes = 'all'", "codes must be one of", id="a wrong value"),
        pytest.param("deposit_batch = 1", "deposit_batch must be true or false, not 1", id="a wrong type"),
        pytest.param(
            "[fields]\namount_cents.withdraw = ['stake']",
            'In TOML, write a key such as "amount_cents.withdraw" in quotes',
            id="a dotted key",
        ),
        pytest.param("[fields]\nplayer_id = 'user'", "must be a sequence of names", id="a single name"),
    ],
)
def test_toml_that_cannot_be(text: str, problem: str) -> None:
    """The message says which key, and what it can be."""
    with pytest.raises(ConfigurationError, match=problem) as refused:
        Profile.from_toml(text)
    assert str(refused.value).isprintable()


#: What prints, as str.isprintable says; to make anything and throw most of it away is too slow.
_PRINTABLE = strategies.characters(
    exclude_categories=("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"), exclude_characters=".", include_characters=" "
)
_STEPS = strategies.text(_PRINTABLE, min_size=1, max_size=5).filter(str.isprintable)
_NAMES = strategies.lists(_STEPS, min_size=1, max_size=3).map(".".join)
_WORDS = strategies.text("abzABZ09_-", min_size=1, max_size=5)


@given(
    player=strategies.lists(_NAMES, min_size=1, max_size=3),
    round_id=strategies.lists(_NAMES, max_size=3),
    claims=strategies.lists(_WORDS, max_size=3, unique_by=str.lower),
    size=strategies.integers(1, sys.maxsize),
)
@examples(40)
def test_any_profile_goes_through_toml(player: list[str], round_id: list[str], claims: list[str], size: int) -> None:
    """Whatever can be set can be written down and read back, quotes, backslashes and emoji included."""
    profile = Profile(
        fields={"player_id": tuple(player), "round_id.deposit": tuple(round_id)},
        claim_types=tuple(claim for claim in claims if claim.lower() != "bet"),
        max_body_bytes=size,
    )
    assert Profile.from_toml(profile.to_toml()) == profile
    assert pickle.loads(pickle.dumps(profile)) == profile
