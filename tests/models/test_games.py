"""Games, their instances and betting limits, alone and in a whole catalogue (spec §2.5, §2.6, §2.7)."""

import json
from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter

from benchmarks.bodies import catalogue
from game_operator.codes import GameStatus, Genre
from game_operator.models import BetConfig, GameInfo, GameInstance
from game_operator.models.operator_api import reader_of
from game_operator.models.wire import decode
from game_operator.models.wire_format import WireFormatError
from tests.support.wire import JsonObject, assert_is_a_value, bet_config, game, game_instance, hole, wire

# Any: the adapters of several models in one table.
GAME: TypeAdapter[Any] = TypeAdapter(GameInfo)
INSTANCE: TypeAdapter[Any] = TypeAdapter(GameInstance)
CONFIG: TypeAdapter[Any] = TypeAdapter(BetConfig)

read = reader_of("fetch-games")

_LIMITS = wire(bet_config())
_LONG_AMOUNT = "12345678901234567.89"


def _game(**changes: Any) -> GameInfo:
    return TypeAdapter(GameInfo).validate_json(wire(game(**changes)))


def test_all_fields_of_a_game() -> None:
    """A game has these eight fields, and no other (spec §2.5)."""
    found = decode(GAME, wire(game()))
    assert list(GameInfo.model_fields) == [
        "id",
        "name",
        "status",
        "thumbnail_url",
        "provider_name",
        "rtp",
        "genre",
        "instances",
    ]
    assert (found.id, found.name, found.status) == ("crash", "Crash", GameStatus.ACTIVE)
    assert (found.thumbnail_url, found.provider_name) == ("https://cdn.example/crash.png", "Example Games")
    assert (found.rtp, found.genre) == (Decimal("96.5"), Genre.CRASH)
    assert [instance.id for instance in found.instances] == ["instance-1"]
    assert found.model_extra == {}


def test_all_fields_of_an_instance() -> None:
    """An instance has these four fields (spec §2.6)."""
    found = decode(INSTANCE, wire(game_instance(active=False)))
    assert list(GameInstance.model_fields) == ["id", "name", "active", "bet_config"]
    assert (found.id, found.name, found.active) == ("instance-1", "Crash EUR", False)
    assert found.bet_config.currency == "EUR"


def test_all_fields_of_a_bet_config() -> None:
    """The limits are decimal currency units, not cents (spec §2.7)."""
    found = decode(CONFIG, wire(bet_config()))
    assert list(BetConfig.model_fields) == ["min_wager", "max_wager", "default_wager", "currency", "max_win"]
    amounts = (found.min_wager, found.max_wager, found.default_wager, found.max_win)
    assert amounts == (Decimal("0.1"), Decimal(100), Decimal(1), Decimal(10000))
    assert {type(amount) for amount in amounts} == {Decimal}
    assert found.currency == "EUR"


@pytest.mark.parametrize("genre", Genre, ids=str)
def test_every_genre(genre: Genre) -> None:
    """All 32 genres arrive as members of the enum, and compare equal to their text (spec §2.5)."""
    found = _game(genre=str(genre)).genre
    assert found is genre
    assert found == str(genre)


@pytest.mark.parametrize("status", GameStatus, ids=str)
def test_every_status(status: GameStatus) -> None:
    """All four statuses arrive as members of the enum (spec §2.5, §3)."""
    assert _game(status=str(status)).status is status


@pytest.mark.parametrize("value", ["Bingo2", "crash", "ACTIVE ", "", "日本", "ACTIVE\n"])
def test_unknown_genres_and_statuses_stay_text(value: str) -> None:
    """A genre or status that a later version adds must not break a lobby: it arrives as plain text (spec §2.5)."""
    found = _game(genre=value, status=value)
    assert (type(found.genre), type(found.status)) == (str, str)
    assert (found.genre, found.status) == (value, value)


@pytest.mark.parametrize(("value", "shown"), [(None, "null"), (5, "5"), (True, "True"), (["Crash"], "['Crash']")])
@pytest.mark.parametrize("field", ["genre", "status", "name"])
def test_genre_and_status_are_text(field: str, value: object, shown: str) -> None:
    """Unknown text is kept; what is no text is refused as for any other text, without a list (spec §2.5)."""
    with pytest.raises(WireFormatError) as refused:
        decode(GAME, wire(game(**{field: value})))
    assert str(refused.value) == f"{field}: must be a string, not {shown}"


@pytest.mark.parametrize("field", ["thumbnail_url", "rtp"])
def test_nullable_fields(field: str) -> None:
    """The thumbnail and the RTP may be null; an absent one is read alike (spec §2.5)."""
    assert getattr(_game(**{field: None}), field) is None
    absent = game()
    del absent[field]
    assert getattr(decode(GAME, wire(absent)), field) is None


@pytest.mark.parametrize(
    ("adapter", "document", "field"),
    [
        *((GAME, game(), field) for field in ("id", "name", "status", "provider_name", "genre", "instances")),
        *((INSTANCE, game_instance(), field) for field in ("id", "name", "active", "bet_config")),
        *((CONFIG, bet_config(), f) for f in ("min_wager", "max_wager", "default_wager", "currency", "max_win")),
    ],
)
def test_every_other_field_is_there_and_not_null(adapter: TypeAdapter[Any], document: JsonObject, field: str) -> None:
    """What the specification does not call nullable is neither absent nor null (spec §2.5, §2.6, §2.7)."""
    absent = {name: value for name, value in document.items() if name != field}
    with pytest.raises(WireFormatError, match=rf"^{field}: Field required$"):
        decode(adapter, wire(absent))
    with pytest.raises(WireFormatError, match=rf"^{field}[.:]"):
        decode(adapter, wire(document | {field: None}))


@pytest.mark.parametrize(
    ("document", "path"),
    [
        pytest.param(game(id=5), "id", id="a number for an id"),
        pytest.param(game(instances=[5]), r"instances\[0\]", id="a number for an instance"),
        pytest.param(game(instances=[game_instance(active="true")]), r"instances\[0\].active", id="text for a bool"),
        pytest.param(
            game(instances=[game_instance(), game_instance(bet_config=bet_config(currency=978))]),
            r"instances\[1\].bet_config.currency",
            id="a number for a currency",
        ),
    ],
)
def test_wrong_types_are_refused_with_their_path(document: JsonObject, path: str) -> None:
    """Nothing is bent into shape: "true" is no boolean, 5 is no id (spec §2.5, §2.6, §2.7)."""
    with pytest.raises(WireFormatError, match=rf"^{path}: .*, not "):
        decode(GAME, wire(document))


def test_unknown_fields_are_kept_at_every_level() -> None:
    """What a later version adds is in model_extra, of the game, the instance and the limits alike (spec §2.5, §9)."""
    limits = bet_config(step=[1, 2])
    found = _game(tags=["new"], instances=[game_instance(bet_config=limits, model_config={"a": 1})])
    assert found.model_extra == {"tags": ["new"]}
    assert found.instances[0].model_extra == {"model_config": {"a": 1}}
    assert found.instances[0].bet_config.model_extra == {"step": [1, 2]}


def test_a_large_catalogue_has_all_its_games() -> None:
    """Each game is the one that is read alone; members that may be absent are (spec §2.5)."""
    document = json.loads(catalogue(50))
    del document["games"][3]["rtp"], document["games"][4]["thumbnail_url"]
    games = read(wire(document))
    assert games == [decode(GAME, wire(one)) for one in document["games"]]
    assert [one.model_dump(mode="json", exclude_unset=True) for one in games] == document["games"]
    assert ("rtp" in games[2].model_fields_set, "rtp" in games[3].model_fields_set) == (True, False)
    assert_is_a_value(games[0])


@pytest.mark.parametrize(
    ("there", "instead", "name"),
    [
        pytest.param(b'{"games":', b'{"games": [], "games":', "games", id="the list"),
        pytest.param(b'"provider_name":', b'"id": "b", "provider_name":', "id", id="of a game"),
        pytest.param(_LIMITS, _LIMITS + b', "bet_config": ' + _LIMITS, "bet_config", id="the limits"),
        pytest.param(b'"currency":', b'"max_win": 1, "currency":', "max_win", id="of the limits"),
        pytest.param(b'"games":', b'"more": {"a": 1, "a": 2}, "games":', "a", id="of an unknown object"),
    ],
)
@pytest.mark.parametrize("amount", ["10000", _LONG_AMOUNT], ids=["fast way", "exact way"])
def test_a_member_that_stands_twice(there: bytes, instead: bytes, name: str, amount: str) -> None:
    """Readers disagree on which of two counts, so the catalogue is refused (spec §2.5)."""
    body = wire({"games": [game(instances=[game_instance(bet_config=bet_config(max_win=hole()))])]}, amount)
    there, instead = (text.replace(b"10000", amount.encode()) for text in (there, instead))
    assert body.count(there) == 1
    assert len(read(body)) == 1
    with pytest.raises(WireFormatError, match=f"the member '{name}' stands twice"):
        read(body.replace(there, instead))


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        pytest.param({"currency": "}"}, True, id="a brace in a text"),
        pytest.param({"currency": '"bet_config": {'}, True, id="a member in a text"),
        pytest.param({"more": {"max_win": 1}}, False, id="an object"),
        pytest.param({'"max_win"': 1}, False, id="a name with quotation marks"),
    ],
)
def test_limits_are_kept_as_they_are(changes: dict[str, object], known: bool) -> None:
    """Text that looks like JSON is text, and unknown members are kept (spec §2.7, §9)."""
    [one] = read(wire({"games": [game(instances=[game_instance(bet_config=bet_config(**changes))])]}))
    limits = one.instances[0].bet_config
    assert limits.max_win == Decimal(10000)
    assert limits.model_extra == ({} if known else changes)
    assert limits.model_dump().items() >= changes.items()


@pytest.mark.parametrize("text", ["0.1", "1.50", "250000.55", "999999999999999", _LONG_AMOUNT, "0.1234567890123456789"])
def test_amounts_of_a_catalogue_are_exact(text: str) -> None:
    """Digit for digit, beyond what a double carries, and beside the same amount in other limits (spec §2.7)."""
    limits = bet_config(max_win=hole())
    instances = [game_instance(bet_config=limits), game_instance(id="2", bet_config=limits)]
    [one] = read(wire({"games": [game(rtp=hole(), instances=instances)]}, text))
    assert [one.rtp, *(each.bet_config.max_win for each in one.instances)] == [Decimal(text)] * 3


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"[]", "the body: "),
        (b'{"games": 5}', "games: "),
        (b'{"games": [5]}', r"games\[0\]: "),
        (wire({"games": [game()] * 1000 + [{"id": 7}]}), r"games\[1000\]\.id: "),
        (b'{"games": [], "next": NaN}', "the body: Invalid JSON"),
        (b'{"games": []', "the body: Invalid JSON"),
    ],
    ids=["a list", "no list", "no game", "the last of 1,001", "NaN", "cut off"],
)
def test_a_catalogue_that_does_not_fit(body: bytes, problem: str) -> None:
    """The first thing that is wrong is named by its place (spec §2.5)."""
    with pytest.raises(WireFormatError, match=f"^{problem}"):
        read(body)


def test_other_members_beside_the_games_do_no_harm() -> None:
    """A later version may add some (spec §9)."""
    assert read(wire({"games": [game()], "next": "2"})) == read(wire({"games": [game()]}))
