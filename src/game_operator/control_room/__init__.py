"""
The control room: the sandbox in a browser, served beside the Operator API by the same port.

Pages are rendered by the server and can be read and used without JavaScript; htmx, shipped in ``static``, makes them
live. No page asks another host for anything.
"""

try:
    from game_operator.control_room.application import ControlRoom
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in {"jinja2", "starlette"}:
        raise
    raise ImportError(
        f"game_operator.control_room needs the package {missing.name}. "
        "Install the extra: pip install 'game-operator[sandbox]'",
        name=missing.name,
    ) from missing

__all__ = ["ControlRoom"]
