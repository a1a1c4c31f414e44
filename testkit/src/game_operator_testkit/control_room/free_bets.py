"""Free bets: granted by the API's rules, and what became of them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final

from pydantic import BaseModel, BeforeValidator, Field, ValidationInfo
from starlette.requests import Request
from starlette.responses import Response

from game_operator.codes import GRANT_MESSAGES, GrantErrorCode
from game_operator.errors import GameOperatorError
from game_operator.models import GrantRequest
from game_operator.models.operator_api import refusal_of
from game_operator_testkit.control_room.forms import CentsTyped, Whole, checked, problem, whole
from game_operator_testkit.control_room.page_context import Page, see_other

_SHOWN: Final = 200
#: What a duration may be given in, in milliseconds.
_UNITS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000, "milliseconds": 1}
_SUGGESTED: Final = {"count": "5", "wager": "1.00", "duration": "1", "unit": "days"}


def _duration(typed: str, info: ValidationInfo) -> int:
    unit = info.data["unit"]
    if unit not in _UNITS:
        raise problem(f"Choose one of {', '.join(_UNITS)}.")
    return whole(typed) * _UNITS[unit]


class GrantForm(BaseModel):
    """The form that grants free bets: the fields of a ``GrantRequest``, and the unit of the duration."""

    player_id: str
    instance_id: str
    count: Whole
    wager_amount_cents: Annotated[CentsTyped, Field(alias="wager")]
    unit: str
    expire_duration_millis: Annotated[int, BeforeValidator(_duration), Field(alias="duration")]
    reference_id: str


def read_grant_form(typed: Mapping[str, str]) -> tuple[GrantRequest | None, dict[str, str]]:
    """Return the request, or None and a sentence for each wrong field, in the words of the API (spec §7.2)."""
    form, problems = checked(GrantForm, typed)
    if form is None:
        return None, problems
    request = GrantRequest(**form.model_dump(exclude={"unit"}))
    code = refusal_of(request)
    return (request, {}) if code is None else (None, refused(code))


def refused(code: GrantErrorCode) -> dict[str, str]:
    """Return why the API refuses the grant, in its words and with its code, by the field that is to blame."""
    fields = ("count", "wager", "duration", "player_id", "reference_id", "instance_id")
    # Codes are called after their fields: COUNT_TOO_HIGH, INVALID_EXPIRE_DURATION, INSTANCE_NOT_FOUND.
    field = next(field for field in fields if field.removesuffix("_id").upper() in code)
    return {field: f"{GRANT_MESSAGES[code]} ({code})"}


class FreeBetsPage(Page):
    """The list of grants, and its two forms."""

    PATH: ClassVar[str] = "/free-bets"
    TITLE: ClassVar[str] = "Free bets"
    FORMS: ClassVar[Sequence[str]] = ("grant", "claim")

    async def show(self, request: Request) -> Response:
        """Show the grants, and a form that is filled in."""
        reference_id = f"free-bets-{len(self._sandbox.world.grants()) + 1}"
        return self._page(request, self._suggested(self._context.likely_player(), reference_id), {})

    async def grant(self, request: Request) -> Response:
        """Grant free bets."""
        fields = await self._context.form(request)
        typed = {name: fields.get(name, "") for name in self._suggested("", "")}
        asked, problems = read_grant_form(typed)
        if asked is None:
            return self._page(request, typed, problems)
        now_millis = self._context.now_millis()
        granted = self._sandbox.world.grant(asked, now_millis=now_millis)
        if isinstance(granted, GrantErrorCode):
            return self._page(request, typed, refused(granted))
        return see_other(f"{self.PATH}?granted={granted.free_bet_id}#grants")

    async def claim(self, request: Request) -> Response:
        """Play the free bets of a grant, and claim what they have won."""
        free_bet_id = (await self._context.form(request)).get("free_bet_id", "")
        try:
            played = await self._context.call_wallet(self._sandbox.claim_free_bets, free_bet_id)
        except GameOperatorError as failed:
            return self._page(request, self._suggested("p1", ""), {}, said=str(failed))
        self._context.remember(free_bet_id, (), played.problems)
        return see_other(f"{self.PATH}?claimed={free_bet_id}#grants")

    def _suggested(self, player_id: str, reference_id: str) -> dict[str, str]:
        ids = {"player_id": player_id, "instance_id": self._sandbox.instance_id, "reference_id": reference_id}
        return _SUGGESTED | ids

    def _page(
        self, request: Request, form: Mapping[str, str], problems: Mapping[str, str], *, said: str = ""
    ) -> Response:
        world, now_millis = self._sandbox.world, self._context.now_millis()
        grants = [(grant, world.grant_status(grant, now_millis=now_millis)) for grant in world.grants()]
        changed = request.query_params.get("granted") or request.query_params.get("claimed") or ""
        return self._context.page(
            request,
            "free_bets.html",
            status=422 if problems or said else 200,
            form=form,
            problems=problems,
            grants=grants[: -_SHOWN - 1 : -1],
            total=len(grants),
            changed=next((each for each in grants if each[0].free_bet_id == changed), None),
            calls=self._context.calls_about(changed) if changed else [],
            units=list(_UNITS),
            said=said,
            wallet_mistakes=self._context.played.get(changed, ((), ()))[1],
        )
