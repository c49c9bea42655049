"""The server over HTTP on this machine: loopback only, and only for who has the token.

Over stdio nothing of this is needed: who starts the program talks to it.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

HOST = "127.0.0.1"


def new_token() -> str:
    """Return a token nobody can guess."""
    return secrets.token_urlsafe(32)


class TokenRequired:
    """Lets requests through that carry the token as `Authorization: Bearer`, and answers all others with 401."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                await _refuse(send)
                return
        await self._app(scope, receive, send)


async def _refuse(send: Send) -> None:
    headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"the token is missing or wrong\n"})


def serve(server: MCPServer, port: int, token: str) -> None:
    """Serve until interrupted. Hosts other than loopback names are refused (DNS rebinding)."""
    import uvicorn

    names = [f"{host}:{port}" for host in (HOST, "localhost")]
    security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names])
    app = server.streamable_http_app(host=HOST, transport_security=security)
    uvicorn.run(TokenRequired(app, token), host=HOST, port=port, log_level="warning")
