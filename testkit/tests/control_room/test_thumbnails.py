"""The pictures of games: one for each genre, always the same, and harmless whatever a game is called (spec §2.5)."""

import re
from xml.etree import ElementTree

import pytest

from game_operator import GameInfo, GameStatus, Genre
from game_operator_testkit.control_room.lobby import thumbnail

NAMESPACE = "{http://www.w3.org/2000/svg}"


def game(game_id: str = "comet", *, genre: str = "Crash", name: str = "Comet") -> GameInfo:
    """Return a game with nothing to play."""
    return GameInfo(
        id=game_id, name=name, status=GameStatus.ACTIVE, provider_name="Quiet Harbour", genre=genre, instances=()
    )


def test_every_genre_has_a_picture() -> None:
    """No genre of spec §2.5 is forgotten, and no two look the same; one of a later version has the general one."""
    drawings = {genre: thumbnail(game(genre=genre)) for genre in Genre}
    assert len(set(drawings.values())) == len(Genre)
    assert all(len(list(ElementTree.fromstring(drawn).iter())) > 10 for drawn in drawings.values())
    assert thumbnail(game(genre="Marbles")) == drawings[Genre.OTHER]


@pytest.mark.parametrize("genre", Genre)
def test_a_game_looks_the_same_each_time_and_unlike_another(genre: str) -> None:
    """The picture follows from id and genre alone: other games of the genre have other colours."""
    assert thumbnail(game(genre=genre, name="B")) == thumbnail(game(genre=genre))
    assert thumbnail(game("other", genre=genre)) != thumbnail(game("comet", genre=genre))


def test_games_of_one_genre_differ_in_more_than_colours() -> None:
    """Dice fall otherwise, cards have other suits, wheels are turned; for each of these genres among a few games."""
    for genre in ("Dice", "Craps", "SicBo", "Slots", "Mine", "Wheel", "Roulette", "Poker", "Blackjack", "HiLo"):
        drawn = {re.sub("#[0-9a-f]{6}", "", thumbnail(game(f"game-{number}", genre=genre))) for number in range(5)}
        assert len(drawn) > 2, genre


@pytest.mark.parametrize("genre", Genre)
def test_a_picture_reaches_for_nothing(genre: str) -> None:
    """No script, style, link or event; the one thing it refers to is its gradient."""
    drawn = thumbnail(game(genre=genre))
    picture = ElementTree.fromstring(drawn)
    kinds = {element.tag.removeprefix(NAMESPACE) for element in picture.iter()}
    assert kinds <= {
        "svg", "defs", "linearGradient", "stop", "g", "rect", "circle", "ellipse", "line", "path", "polygon", "text",
    }  # fmt: skip
    attributes = {name for element in picture.iter() for name in element.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name or name in ("style", "src")}
    assert re.findall(r"url\(([^)]*)\)", drawn) == ["#shade"]
    assert [each.attrib["id"] for each in picture.iter(f"{NAMESPACE}linearGradient")] == ["shade"]
    assert {element.get("font-family") for element in picture.iter(f"{NAMESPACE}text")} <= {"sans-serif"}


@pytest.mark.parametrize("text", ["<script>", "../../templates/base", "../icon", "\x00", "\ud800", "", "x" * 10_000])
def test_no_text_of_a_game_reaches_its_picture(text: str) -> None:
    """Neither id, name nor genre is written into it, and a genre is never a path."""
    drawn = thumbnail(GameInfo.model_construct(**dict(game()) | {"id": text, "name": text, "genre": text}))
    assert re.sub("#[0-9a-f]{6}", "", drawn) == re.sub("#[0-9a-f]{6}", "", thumbnail(game(genre=Genre.OTHER)))
