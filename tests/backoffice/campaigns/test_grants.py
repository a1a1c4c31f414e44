"""Reference ids and keys: the same for the same grant, for ever, and different for different ones."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from game_operator.backoffice import CampaignRefusedError
from game_operator.backoffice.campaigns.grants import (
    Grant,
    check_name,
    grant_of,
    limit_broken_by,
    problem_of_player,
    reference_id_of,
)

IDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=100)


@pytest.mark.parametrize(
    ("campaign", "player_id", "expected"),
    [
        pytest.param("summer-26", "p1", "summer-26/p1", id="short"),
        pytest.param("c", "x" * 98, "c/" + "x" * 98, id="100 characters"),
        pytest.param("c", "x" * 99, "c/" + "x" * 65 + "~4593a12f79b678095248446cbbfb5dac", id="101 characters"),
        pytest.param("c", "ж" * 99, "c/" + "ж" * 65 + "~518939707ae347694acaa92f02ab0cc0", id="characters, not bytes"),
        pytest.param(
            "A" * 40, "y" * 100, "A" * 40 + "/" + "y" * 26 + "~8266f2d8ecf9a2f95ea3a0048623e7ca", id="the longest"
        ),
    ],
)
def test_reference_ids_never_change(campaign: str, player_id: str, expected: str) -> None:
    """A changed one would grant a second time to all players of a campaign under way (spec §2.2)."""
    assert reference_id_of(campaign, player_id) == expected


@given(IDS)
def test_a_reference_id_fits_and_a_shortened_one_is_made_of_all(player_id: str) -> None:
    """Spec §8: at most 100 characters."""
    found, whole = reference_id_of("spring", player_id), f"spring/{player_id}"
    assert len(found) <= 100
    if found != whole:
        assert found == f"{whole[:67]}~{sha256(whole.encode()).hexdigest()[:32]}"


@given(st.tuples(IDS, IDS), st.tuples(IDS, IDS))
def test_grants_have_one_key_only_if_player_and_instance_are_the_same(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    """The grant of a/b on c is another one than that of a on b/c."""
    keys = [Grant(*each, 1, 1, 1).key for each in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


@given(IDS, IDS, st.integers(1, 50), st.integers(1, 10**6), st.integers(1, 2_592_000_000))
def test_what_the_journal_keeps_is_the_grant(player: str, instance: str, count: int, wager: int, millis: int) -> None:
    grant = Grant(player, instance, count, wager, millis)
    assert grant_of(grant.key, grant.terms) == grant


@pytest.mark.parametrize("name", ["a", "A" * 40, "summer-26", "x.y_z", "0"])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "A" * 41, "sum mer", "sommer/26", "é", "a\n", "~"])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(CampaignRefusedError, match="Use 1 to 40 letters"):
        check_name(name)


@pytest.mark.parametrize(
    ("numbers", "code"),
    [
        pytest.param((0, 1, 1), "INVALID_COUNT", id="count 0"),
        pytest.param((1, 1, 1), "", id="all lowest"),
        pytest.param((50, 1_000_000, 2_592_000_000), "", id="all highest"),
        pytest.param((51, 1, 1), "COUNT_TOO_HIGH", id="count 51"),
        pytest.param((1, 0, 1), "INVALID_WAGER_AMOUNT", id="wager 0"),
        pytest.param((1, 1_000_001, 1), "WAGER_AMOUNT_TOO_HIGH", id="wager 1,000,001"),
        pytest.param((1, 1, 0), "INVALID_EXPIRE_DURATION", id="duration 0"),
        pytest.param((1, 1, 2_592_000_001), "EXPIRE_DURATION_TOO_LONG", id="duration over 30 days"),
    ],
)
def test_limits_on_both_sides(numbers: tuple[int, int, int], code: str) -> None:
    """Spec §8, in the service's words."""
    said = limit_broken_by(*numbers)
    assert (code in said) if code else said == ""
    fields = ("count", "wager_amount_cents", "expire_duration_millis")
    assert not code or any(f"{name} is {number}." in said for name, number in zip(fields, numbers, strict=True))


@pytest.mark.parametrize(
    "player_id",
    [
        *("p1", "Ann Lee", "+46-70", "=cmd", "ж" * 100, "x" * 100),
        *("e\u0301", "\U0001f600", "a\u200db", "c" * 60 + "~" + "0" * 32),
    ],
)
def test_player_ids_that_can_be_granted_to(player_id: str) -> None:
    assert problem_of_player("c", player_id) == ""


@pytest.mark.parametrize(
    ("player_id", "problem"),
    [
        pytest.param("", "blank", id="empty"),
        pytest.param("\u3000", "blank", id="only a wide space"),
        pytest.param(" p1", "begins or ends with", id="padded left"),
        pytest.param("\ufeffp1", "begins or ends with", id="a byte order mark"),
        pytest.param("p1\u200b", "begins or ends with", id="a space without width"),
        pytest.param("p1\n", "control character", id="a line end"),
        pytest.param("p\x001", "control character", id="U+0000"),
        pytest.param("p\udcff", "not valid UTF-8", id="half of a surrogate pair"),
        pytest.param("x" * 101, "cannot exceed 100", id="101 characters"),
        pytest.param("x" * 65 + "~" + "0" * 32, "look like the shortened one", id="as if it were shortened"),
    ],
)
def test_player_ids_that_are_mistakes(player_id: str, problem: str) -> None:
    assert problem in problem_of_player("c", player_id)
