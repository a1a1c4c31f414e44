"""
The control room: the sandbox in a browser, served beside the Operator API by the same port.

Pages are rendered by the server and can be read and used without JavaScript; htmx, shipped in ``static``, makes them
live. No page asks another host for anything.
"""

from game_operator_testkit.control_room.application import ControlRoom

__all__ = ["ControlRoom"]
