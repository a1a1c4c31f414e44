"""The pictures of games: one for each genre, always the same, and harmless whatever a game is called (spec §2.5)."""

import re
from xml.etree import ElementTree

import pytest

from game_operator import GameInfo, GameStatus, Genre
from game_operator.control_room.motifs import MOTIFS
from game_operator.control_room.thumbnails import thumbnail_svg

NAMESPACE = "{http://www.w3.org/2000/svg}"


def game(game_id: str = "comet", *, genre: str = "Crash", name: str = "Comet") -> GameInfo:
    """Return a game with nothing to play."""
    return GameInfo(
        id=game_id, name=name, status=GameStatus.ACTIVE, provider_name="Quiet Harbour", genre=genre, instances=()
    )


@pytest.mark.parametrize("genre", [*Genre, "Marbles"])
def test_every_genre_has_a_picture(genre: str) -> None:
    """It is well-formed XML and has the name and the genre as its title, one of a later version included."""
    picture = ElementTree.fromstring(thumbnail_svg(game(genre=genre)))
    assert picture.findtext(f"{NAMESPACE}title") == f"Comet ({genre})"
    assert len(list(picture.iter())) > 10


def test_every_genre_has_a_motif_of_its_own() -> None:
    """No genre of spec §2.5 is forgotten, and no two look the same."""
    assert set(MOTIFS) == set(Genre)
    drawings = [re.sub("<title>.*?</title>", "", thumbnail_svg(game(genre=genre))) for genre in Genre]
    assert len(set(drawings)) == len(Genre)


@pytest.mark.parametrize("genre", Genre)
def test_a_game_looks_the_same_each_time_and_unlike_another(genre: str) -> None:
    """The picture follows from id and genre alone; the name stands in the title only."""
    assert thumbnail_svg(game(genre=genre, name="B")) == thumbnail_svg(game(genre=genre)).replace(">Comet (", ">B (")
    assert thumbnail_svg(game("other", genre=genre)) != thumbnail_svg(game("comet", genre=genre))


@pytest.mark.parametrize("genre", [*Genre, "Marbles"])
def test_a_picture_reaches_for_nothing(genre: str) -> None:
    """No script, style, link or event; the one thing it refers to is a gradient of its own."""
    drawn = thumbnail_svg(game(genre=genre))
    picture = ElementTree.fromstring(drawn)
    kinds = {element.tag.removeprefix(NAMESPACE) for element in picture.iter()}
    assert kinds <= {
        "svg", "title", "defs", "linearGradient", "stop", "g", "rect", "circle", "ellipse", "line", "path", "polygon",
        "text",
    }  # fmt: skip
    attributes = {name for element in picture.iter() for name in element.attrib}
    assert not {name for name in attributes if name.startswith("on") or "href" in name or name in ("style", "src")}
    assert set(re.findall(r"url\(([^)]*)\)", drawn)) == {f"#{gradient(picture)}"}
    assert {element.get("font-family") for element in picture.iter(f"{NAMESPACE}text")} <= {"sans-serif"}


def gradient(picture: ElementTree.Element) -> str:
    """Return the id of the picture's one gradient."""
    (found,) = picture.iter(f"{NAMESPACE}linearGradient")
    return found.attrib["id"]


def test_pictures_can_share_a_page() -> None:
    """An id in one is not an id in another: the second would else be painted with the colours of the first."""
    pictures = [ElementTree.fromstring(thumbnail_svg(game(f"game-{number}"))) for number in range(50)]
    assert len({gradient(picture) for picture in pictures}) == 50


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("<script>alert(1)</script>", "<script>alert(1)</script>", id="script"),
        pytest.param("</title><g onload=alert(1)>", "</title><g onload=alert(1)>", id="the end of the title"),
        pytest.param("Fish & \"Chips\" 'n' €", "Fish & \"Chips\" 'n' €", id="quotation marks"),
        pytest.param("\x00\x1b[31m\ud800", "\ufffd\ufffd[31m\ufffd", id="what XML cannot carry"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_every_name_is_escaped(name: str, shown: str) -> None:
    """A name is text in the title, and nothing else."""
    drawn = thumbnail_svg(GameInfo.model_construct(**dict(game()) | {"name": name}))
    assert ElementTree.fromstring(drawn.encode()).findtext(f"{NAMESPACE}title") == f"{shown} (Crash)"
    assert drawn.count("<") == thumbnail_svg(game()).count("<")


@pytest.mark.parametrize("game_id", ["", "a/b?c#d", "'\"><b>", "\ud800", "x" * 10_000])
def test_every_id_gives_a_picture(game_id: str) -> None:
    """No id reaches the picture, but for a digest of it."""
    drawn = thumbnail_svg(GameInfo.model_construct(**dict(game()) | {"id": game_id}))
    assert game_id == "" or game_id not in drawn
    assert re.fullmatch("shade-[0-9a-f]{12}", gradient(ElementTree.fromstring(drawn)))


def test_a_genre_that_is_hostile_is_escaped_too() -> None:
    """A genre of a later version is any text."""
    drawn = thumbnail_svg(game(genre="<script>"))
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn
