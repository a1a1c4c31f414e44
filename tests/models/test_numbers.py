"""Numbers of the wire arrive exactly, or are refused with the path of their field (spec §2.4, §2.5, §2.7, §2.8)."""

import decimal
import inspect
import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, strategies
from pydantic import BaseModel, TypeAdapter, ValidationError

from game_operator.models import (
    BetConfig,
    BetNotFound,
    GameInfo,
    GrantAccepted,
    GrantRequest,
    OpenBet,
)
from game_operator.models.operator_api import BetLookup, RoundLookup
from game_operator.models.wire import decode
from game_operator.models.wire_format import WireFormatError
from tests.support.wire import (
    JSON_VALUES,
    NUMBER_TEXT,
    PLAIN_NUMBER_TEXT,
    JsonObject,
    bet,
    bet_config,
    examples,
    game,
    grant_request,
    granted,
    hole,
    round_of,
    wire,
)

# Any: the adapters of several models in one table.
CONFIG: TypeAdapter[Any] = TypeAdapter(BetConfig)
GAME: TypeAdapter[Any] = TypeAdapter(GameInfo)
BET: TypeAdapter[Any] = TypeAdapter(BetLookup)
ROUND: TypeAdapter[Any] = TypeAdapter(RoundLookup)
GRANT: TypeAdapter[Any] = TypeAdapter(GrantAccepted)
REQUEST: TypeAdapter[Any] = TypeAdapter(GrantRequest)

MAX_CENTS = 10**15
LAST_MILLISECOND = 253_402_300_799_999


class Spelling:
    """A JSON number's value and size, worked out from its letters alone."""

    def __init__(self, text: str) -> None:
        mantissa, _, exponent = text.lower().partition("e")
        whole, _, fraction = mantissa.removeprefix("-").partition(".")
        digits = (whole + fraction).lstrip("0") or "0"
        shift = int(exponent or "0") - len(fraction)
        self.value = int(digits) * Fraction(10) ** shift * (-1 if mantissa.startswith("-") else 1)
        self.is_ordinary = self.value == 0 or abs(shift + len(digits) - 1) <= 64

    def plainly(self) -> str:
        """Return the value without exponent and trailing zeros, as ``str`` shows such a Decimal."""
        decimals = next(places for places in range(200) if (self.value * 10**places).denominator == 1)
        digits = str(abs(self.value.numerator) * 10**decimals // self.value.denominator).rjust(decimals + 1, "0")
        point = len(digits) - decimals
        plain = digits[:point] + ("." + digits[point:] if decimals else "")
        return str(Decimal("-" + plain if self.value < 0 else plain))


def slow_way(body: bytes) -> bytes:
    """Return *body* with an unknown number in front that only the exact way can read."""
    return body.replace(b"{", b'{"zz": 12345678901234567890.5, ', 1)


@given(NUMBER_TEXT | PLAIN_NUMBER_TEXT)
@example("0.1")
@example("123456789012345.6")
@example("1234567890123456.78")
@example("12345678901234567.89")
@example("9007199254740993")
@example("90071992547409.93")
@example("0.000000000000001")
@example("1e65")
@example("1E-64")
@example("1E-65")
@example("0e-999")
@example("1e5")
@examples(150)
def test_amounts_are_exact(text: str) -> None:
    """A limit in currency units is the number that was sent, digit for digit, however it is spelled (spec §2.7)."""
    spelling = Spelling(text)
    body = wire(bet_config(min_wager=hole()), text)
    if not spelling.is_ordinary:
        for refused in (body, slow_way(body)):
            with pytest.raises(WireFormatError, match=r"^min_wager: must be a number of ordinary size"):
                decode(CONFIG, refused)
        return
    for accepted in (body, slow_way(body)):
        amount = decode(CONFIG, accepted).min_wager
        assert type(amount) is Decimal
        assert Fraction(amount) == spelling.value
        assert str(amount) == spelling.plainly()


@given(NUMBER_TEXT | PLAIN_NUMBER_TEXT | strategies.integers(-5, MAX_CENTS + 5).map(str))
@example("100.0")
@example("99999999999999.0")
@example("9999999999999.5")
@example("999999999999999.9999999999999999")
@example("1000000000000000")
@example("1000000000000001")
@example("1000000000000000.0")
@example("1e15")
@example("1e-400")
@example("1E-400")
@example("1.000000000000001e15")
@example("100000000000000e-12")
@example("-0.0")
@examples(150)
def test_cents_are_whole_and_exact(text: str) -> None:
    """A wager is a whole number of cents from 0 to 10^15, or refused; nothing is rounded (spec §2.4)."""
    spelling = Spelling(text)
    fits = spelling.is_ordinary and spelling.value.denominator == 1 and 0 <= spelling.value <= MAX_CENTS
    body = wire(bet(wager=hole()), text)
    for either in (body, slow_way(body)):
        if fits:
            wager = decode(BET, either).wager
            assert type(wager) is int
            assert wager == spelling.value
        else:
            with pytest.raises(WireFormatError, match=r"^wager: must be a whole number from 0 to 1000000000000000, "):
                decode(BET, either)


@pytest.mark.parametrize("text", ["0", "-0", "0.00", "-0.0", "0e-999", "0E+999999999999999999", "0." + "0" * 99])
def test_zero_is_zero_however_it_is_written(text: str) -> None:
    """No sign, point or exponent makes another zero of it, and no exponent fills the memory (spec §2.4, §2.7)."""
    assert str(decode(CONFIG, wire(bet_config(min_wager=hole()), text)).min_wager) == "0"
    assert decode(BET, wire(bet(wager=hole()), text)).wager == 0


NO_NUMBERS = [
    pytest.param("true", "not True", id="true"),
    pytest.param("{}", "not {}", id="an object"),
    pytest.param("1e400", "not (inf|1e400)", id="beyond a double"),
    pytest.param("1e99999999999999999999", "not 1e99999999999999999999", id="an exponent beyond a Decimal"),
]


@pytest.mark.parametrize(("text", "shown"), NO_NUMBERS)
@pytest.mark.parametrize(
    ("adapter", "document", "path"),
    [
        pytest.param(BET, bet(wager=hole()), "wager", id="wager"),
        pytest.param(BET, bet(timestamp=hole()), "timestamp", id="timestamp"),
        pytest.param(ROUND, round_of(*[bet()] * 3, bet(wager=hole())), "bets[3].wager", id="a wager in a round"),
        pytest.param(CONFIG, bet_config(max_win=hole()), "max_win", id="an amount"),
        pytest.param(REQUEST, grant_request(count=hole()), "count", id="a count"),
    ],
)
def test_what_is_no_number_is_refused(
    adapter: TypeAdapter[Any], document: JsonObject, path: str, text: str, shown: str
) -> None:
    """A number is a JSON number of ordinary size; the refusal names its field and shows it (spec §2.2 to §2.8)."""
    body = wire(document, text)
    for either in (body, slow_way(body)):
        with pytest.raises(WireFormatError, match=rf"^{re.escape(path)}: must be a .*number.*, {shown}$"):
            decode(adapter, either)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "nan", "01", "1.", ".5", "+1", "0x10", "1_000"])
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(bet(wager=hole()), id="in a known field"),
        pytest.param(bet(surprise=hole()), id="in an unknown field"),
        pytest.param({"surprise": hole(), **bet()}, id="in front"),
    ],
)
def test_what_is_not_json_is_refused_everywhere(document: JsonObject, literal: str) -> None:
    """NaN, infinities and foreign spellings are not JSON, whatever some parsers take (spec §2.4)."""
    body = wire(document, literal)
    for either in (body, slow_way(body)):
        with pytest.raises(WireFormatError, match=r"^(the body: Invalid JSON|wager: must be)"):
            decode(BET, either)


@pytest.mark.parametrize(
    ("adapter", "document", "field", "fitting", "refused"),
    [
        pytest.param(BET, bet(wager=hole()), "wager", [0, MAX_CENTS], [-1, MAX_CENTS + 1], id="wager"),
        pytest.param(BET, bet("CLOSED", won=hole()), "won", [0, MAX_CENTS], [-1, MAX_CENTS + 1], id="won"),
        pytest.param(
            BET, bet(timestamp=hole()), "timestamp", [0, LAST_MILLISECOND], [-1, LAST_MILLISECOND + 1], id="time"
        ),
        pytest.param(
            REQUEST, grant_request(count=hole()), "count", [-(10**60), 10**60], [-(10**60) - 1, 10**60 + 1], id="count"
        ),
    ],
)
def test_both_sides_of_each_bound(
    adapter: TypeAdapter[Any], document: JsonObject, field: str, fitting: list[int], refused: list[int]
) -> None:
    """The first and the last value are read, what lies one beyond is refused, spelled with and without .0 (spec §2)."""
    for number in fitting:
        for text in (str(number), f"{number}.0"):
            assert getattr(decode(adapter, wire(document, text)), field) == number
    for number in refused:
        for text in (str(number), f"{number}.0"):
            with pytest.raises(WireFormatError, match=f"^{field}: must be a whole number"):
                decode(adapter, wire(document, text))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(rb'{"min\u005fwager": "0.1", ', id="an escape in the name, text"),
        pytest.param(rb'{"\u006din_wage\u0072": 12345678901234567.89, ', id="escapes around a long number"),
        pytest.param(b'{"min_wager"  \r\n\t :\n "0.1", ', id="white space around the colon, text"),
    ],
)
def test_no_spelling_of_the_body_gets_around_exactness(body: bytes) -> None:
    """Escapes, white space and repeated names change nothing about what an amount is (spec §2.7)."""
    rest = json.dumps(bet_config()).removeprefix('{"min_wager": 0.1, ').encode()
    if b"12345678901234567.89" in body:
        assert str(decode(CONFIG, body + rest).min_wager) == "12345678901234567.89"
    else:
        with pytest.raises(WireFormatError, match=r"^min_wager: must be a number"):
            decode(CONFIG, body + rest)


@pytest.mark.parametrize("name", ["wager", r"wag\u0065r"])
@pytest.mark.parametrize("first", ["1", '"100"', "true", "1.5", "12345678901234567.89"])
def test_a_name_that_stands_twice(name: str, first: str) -> None:
    """Readers disagree on which of two counts, so neither does, whichever way the body is read (decision 0028)."""
    body = wire(bet(wager=hole()), first).replace(b"wager", name.encode())
    for last in ("7", '"7"'):
        twice = body.replace(b"}", f', "wager": {last}}}'.encode())
        for either in (twice, slow_way(twice)):
            with pytest.raises(WireFormatError, match=r"the member 'wager' stands twice|^wager: .*, not '7'$"):
                decode(BET, either)


@pytest.mark.parametrize(
    ("adapter", "document", "name"),
    [*((CONFIG, bet_config(), name) for name in bet_config() if name != "currency"), (GAME, game(), "rtp")],
)
def test_every_amount_is_guarded(adapter: TypeAdapter[Any], document: JsonObject, name: str) -> None:
    """Each of the four amounts and the return to the player is exact and refuses text (spec §2.5, §2.7)."""
    body = document | {name: hole()}
    assert str(getattr(decode(adapter, wire(body, "123456789012345678.90")), name)) == "123456789012345678.9"
    for wrong in ('"5"', "[0,[5],0]", "true"):
        with pytest.raises(WireFormatError, match=f"^{name}: must be a number"):
            decode(adapter, wire(body, wrong))


def test_an_amount_is_exact_however_many_others_came_before() -> None:
    """Amounts are remembered by their doubles, and more than fit there are as exact as the first ones (spec §2.4)."""
    amounts = [f"{cents // 100}.{cents % 100:02}" for cents in range(5_001)]
    for amount in [*amounts, *amounts[:3]]:
        config = decode(CONFIG, wire(bet_config(min_wager=hole()), amount))
        assert config.min_wager == Decimal(amount)


LOOKS_LIKE_A_NUMBER = strategies.sampled_from(
    [
        "1234567890123456789",
        ":12345678901234567890",
        "[9999999999999999999.99",
        'rtp":"5',
        "Infinity}",
        "\\u0030",
        "１２３",
    ]
)


@given(LOOKS_LIKE_A_NUMBER, LOOKS_LIKE_A_NUMBER)
@examples(60)
def test_ids_that_look_like_numbers(first: str, second: str) -> None:
    """What stands in a string is text, whatever it looks like, and the numbers around it stay exact (spec §2.4)."""
    document = bet(reference_id=first, player_id=second, game=first + second, wager=7)
    found = decode(BET, wire(document))
    assert (found.reference_id, found.player_id, found.game) == (first, second, first + second)
    assert (found.wager, found.timestamp) == (7, document["timestamp"])


DOCUMENTS = [
    (BET, bet("OPEN")),
    (BET, bet("CLOSED")),
    (BET, bet("ROLLED_BACK")),
    (BET, {"status": "NOT_FOUND"}),
    (ROUND, round_of(bet("CLOSED"), bet())),
    (ROUND, {"status": "NOT_FOUND"}),
    (GAME, game()),
    (GRANT, granted()),
    (REQUEST, grant_request()),
]


@strategies.composite
def bent_documents(draw: strategies.DrawFn) -> tuple[TypeAdapter[Any], bytes]:
    """Return a body with one field replaced, removed or added somewhere."""
    adapter, document = draw(strategies.sampled_from(DOCUMENTS))
    bent: JsonObject = json.loads(json.dumps(document))
    place: Any = bent
    while draw(strategies.booleans()):
        inner = [item for item in place.values() if isinstance(item, dict)]
        inner += [item[0] for item in place.values() if isinstance(item, list) and item]
        if not inner:
            break
        place = draw(strategies.sampled_from(inner))
    name = draw(strategies.sampled_from([*place, "surprise"]))
    if draw(strategies.integers(0, 9)) == 0:
        place.pop(name, None)
        return adapter, wire(bent)
    place[name] = draw(strategies.just(hole()) | JSON_VALUES)
    return adapter, wire(bent, draw(NUMBER_TEXT | PLAIN_NUMBER_TEXT))


def _outcome(adapter: TypeAdapter[Any], body: bytes) -> str:
    try:
        model = decode(adapter, body)
    except WireFormatError as misfit:
        return str(misfit).partition(": ")[0]
    values = model.model_dump()
    values.pop("zz", None)
    return f"{type(model).__name__} {values!r}"


@given(bent_documents())
@examples(200)
def test_both_ways_of_reading_agree(bent: tuple[TypeAdapter[Any], bytes]) -> None:
    """The fast way takes what the exact way takes, with the same values, and refuses the same field (spec §2)."""
    adapter, body = bent
    assert _outcome(adapter, body) == _outcome(adapter, slow_way(body))


@given(PLAIN_NUMBER_TEXT, NUMBER_TEXT)
@example("12345678901234567.89", "0.1234567890123456789")
@examples(200)
def test_amounts_survive_their_own_json(plain: str, wild: str) -> None:
    """An amount of any length comes back from JSON as it went in, and as a JSON number if a double can (spec §2.7)."""
    amounts = [Decimal(text) for text in (plain, wild) if Spelling(text).is_ordinary]
    for amount in amounts:
        config = BetConfig(
            min_wager=amount,
            max_wager=Decimal(100),
            default_wager=Decimal("0.50"),
            currency="EUR",
            max_win=Decimal("1E+3"),
        )
        again = BetConfig.model_validate_json(config.model_dump_json())
        assert again == config
        assert str(again) == str(config)
        written = json.loads(config.model_dump_json())
        assert (written["default_wager"], written["max_win"]) == (0.5, 1000)
        assert isinstance(written["min_wager"], float) == (Decimal(repr(float(amount))) == amount)


@pytest.mark.parametrize(
    "text", ["", "abc", "NaN", "Infinity", "1e400", "1_000", " 1", "1 ", "+1", "1.", "１", "1E+65"]
)
def test_text_that_no_model_wrote_is_refused(text: str) -> None:
    """model_validate_json reads the text that model_dump_json writes for long amounts, and no other (spec §2.7)."""
    assert str(BetConfig.model_validate_json(wire(bet_config(max_win="1E-8"))).max_win) == "1E-8"
    with pytest.raises(ValidationError, match="must be a number of ordinary size"):
        BetConfig.model_validate_json(wire(bet_config(max_win=text)))


@pytest.mark.parametrize(
    "traps",
    [
        pytest.param([decimal.Inexact, decimal.Rounded, decimal.FloatOperation], id="rounding trapped"),
        pytest.param([], id="nothing trapped"),
    ],
)
def test_no_number_asks_the_decimal_context(traps: list[type[decimal.DecimalException]]) -> None:
    """An application that narrows or traps its decimal context reads the same numbers (spec §2.4, §2.7)."""
    with decimal.localcontext(decimal.Context(prec=2, traps=traps)):
        assert decode(BET, wire(bet(wager=hole()), "123456.0")).wager == 123456
        assert decode(BET, wire(bet(wager=hole()), "1234567890123.0000000")).wager == 1234567890123
        config = decode(CONFIG, wire(bet_config(min_wager=hole(), max_win=0.125), "12345678901234567.89"))
        assert (str(config.min_wager), str(config.max_win)) == ("12345678901234567.89", "0.125")
        assert json.loads(config.model_dump_json())["min_wager"] == "12345678901234567.89"
        with pytest.raises(WireFormatError, match=r"^wager"):
            decode(BET, wire(bet(wager=hole()), "1e99999999999999999999"))


@pytest.mark.parametrize(
    ("build", "accepted"),
    [
        pytest.param(lambda: OpenBet(**bet(wager=100)).wager, 100, id="an int as cents"),
        pytest.param(lambda: OpenBet(**bet(wager=100.0)).wager, 100, id="a whole float as cents"),
        pytest.param(lambda: BetConfig(**_config(Decimal("0.10"))).min_wager, Decimal("0.1"), id="a Decimal"),
        pytest.param(lambda: OpenBet(**bet(wager=100.5)), None, id="half a cent"),
        pytest.param(lambda: OpenBet(**bet(wager=float("inf"))), None, id="infinity as cents"),
        pytest.param(lambda: OpenBet(**bet(wager=Decimal(100))), None, id="units where cents belong"),
        pytest.param(lambda: OpenBet(**bet(wager=-1)), None, id="a negative wager"),
        pytest.param(lambda: BetConfig(**_config(0.1)), None, id="a float as units"),
        pytest.param(lambda: BetConfig(**_config(Decimal("NaN"))), None, id="NaN as units"),
        pytest.param(lambda: BetConfig(**_config(Decimal("1E+65"))), None, id="a number that fills the memory"),
    ],
)
def test_values_built_in_python(build: Callable[[], object], accepted: object) -> None:
    """Tests and sandboxes build models by hand; what the wire may not say, they may not either (spec §2.4, §2.7)."""
    if accepted is None:
        with pytest.raises(ValidationError):
            build()
        return
    assert build() == accepted
    assert type(build()) is type(accepted)


def _config(min_wager: object) -> JsonObject:
    amounts = {name: Decimal(1) for name in ("max_wager", "default_wager", "max_win")}
    return {"min_wager": min_wager, "currency": "EUR", **amounts}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "Invalid JSON", id="nothing"),
        pytest.param(json.dumps(bet()).encode("utf-16"), "Invalid JSON", id="UTF-16"),
        pytest.param(b'{"status":"NOT_FOUND","x":"\xff"}', "Invalid JSON", id="broken UTF-8"),
        pytest.param(rb'{"status":"NOT_FOUND","x":"\ud800"}', "Invalid JSON", id="half a surrogate pair"),
        pytest.param(b'{"status":"NOT_FOUND","x":' + b"[" * 10**5 + b"}", "Invalid JSON", id="brackets without end"),
        pytest.param(b"[]", "the body: ", id="a list"),
    ],
)
def test_what_is_no_readable_body_is_refused(body: bytes, problem: str) -> None:
    """A body is one JSON object in UTF-8; anything else ends in the same kind of error (spec §2.4)."""
    for either in (body, slow_way(body)):
        with pytest.raises(WireFormatError, match=problem):
            decode(BET, either)


def test_a_body_read_with_little_stack_left() -> None:
    """Nesting that the caller's stack has no room for is refused as a body that cannot be read is (spec §2.4)."""
    nested = slow_way(b'{"status":"NOT_FOUND","x":' + b"[" * 150 + b"]" * 150 + b"}")
    assert isinstance(decode(BET, nested), BetNotFound)
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        # From Python 3.12 on the stack of C is another, and has room.
        with suppress(WireFormatError):
            assert isinstance(decode(BET, nested), BetNotFound)
    finally:
        sys.setrecursionlimit(usual)


@given(strategies.binary(max_size=60) | JSON_VALUES.map(wire))
@examples(200)
def test_any_bytes_end_in_a_model_or_one_error(body: bytes) -> None:
    """Nothing but WireFormatError ever comes out of a body (spec §2)."""
    for adapter in (BET, ROUND, GAME, GRANT, REQUEST, CONFIG):
        with suppress(WireFormatError):
            assert isinstance(decode(adapter, body), BaseModel)


def test_refusals_stay_on_one_short_line() -> None:
    """The service's own text in a refusal is escaped and cut (spec §2.4)."""
    for status in ("OPEN\nforged", "A" * 10**5, "\x1b[31m"):
        with pytest.raises(WireFormatError) as refused:
            decode(BET, wire(bet(status)))
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 400
