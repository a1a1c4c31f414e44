"""What the status bar asks for and sends: itself, as it is now, and the form that switches all faults off."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from game_operator_testkit.control_room.page_context import PageContext, see_other
from game_operator_testkit.provider.faults import FaultPlan

_PATH: Final = "/status"


class StatusBar:
    """The bar without a page around it, and its form."""

    def __init__(self, context: PageContext) -> None:
        self._context = context

    def routes(self) -> Sequence[Route]:
        """Return the routes of the bar."""
        return [Route(_PATH, self.show), Route(f"{_PATH}/off", self.off, methods=["POST"])]

    async def show(self, request: Request) -> Response:
        """Show the bar, for the page that its query names."""
        return_to = local_page(request.query_params.get("page", ""))
        return HTMLResponse(self._context.fragment("_status.html", return_to=return_to))

    async def off(self, request: Request) -> Response:
        """Switch all faults off, and go back to the page that the form names."""
        fields = await self._context.form(request)
        self._context.sandbox.service.faults.plan = FaultPlan()
        return see_other(local_page(fields.get("page", "")))


def local_page(address: str) -> str:
    """Return *address* if it is a page of the control room, with its query; else the first page."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "/"
    is_ours = not parts.scheme and not parts.netloc and parts.path.startswith("/") and not parts.path.startswith("//")
    # Browsers read a backslash as a slash, and drop control characters.
    return address if is_ours and "\\" not in address and address.isprintable() else "/"
