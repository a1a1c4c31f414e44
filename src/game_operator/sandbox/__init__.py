"""
The service, played on this machine: the Operator API over real HTTP on loopback (extra ``sandbox``).

::

    with Sandbox() as sandbox, sandbox.client() as client:
        client.fetch_games()

The four calls are recognised, verified and answered by ``game_operator.protocol.service``, the other half of what the
clients send; what this package adds is a world to ask about and a port to ask at. Choices that the specification
leaves to the service are listed in docs/decisions/0009.
"""

try:
    from game_operator.sandbox.server import Sandbox
    from game_operator.sandbox.world import Grant, SandboxWorld
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in {"starlette", "uvicorn"}:
        raise
    raise ImportError(
        f"game_operator.sandbox needs the package {missing.name}. "
        "Install the extra: pip install 'game-operator[sandbox]'",
        name=missing.name,
    ) from missing

__all__ = ["Grant", "Sandbox", "SandboxWorld"]
