"""What every request passes first, Host, Origin and token, and the headers of every response."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Set
from urllib.parse import urlsplit

from aiohttp import web

from coterie.text.addresses import is_own_host

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def is_own_origin(request: web.Request) -> bool:
    """Whether the request comes from a page of this server, or from no page; a browser names the origin of what it sends for
    another's page."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return request.method == "GET" and request.headers.get("Sec-Fetch-Mode") == "navigate"  # a link leads here
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("Host")


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """To every response, errors and streams too: a signal's receiver (on_response_prepare)."""
    response.headers.update(HEADERS)


@web.middleware
async def refuse_other_origins(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A page of another server must neither read nor change anything here."""
    if not is_own_origin(request):
        return web.Response(status=403, text="this request comes from a page of another server")
    return await handler(request)


class Guards:
    """``names``: those of the server in a Host header. ``token``: what a request must bring, None for none."""

    def __init__(self, names: Set[str], token: str | None = None) -> None:
        self.names, self._token = {"localhost", *names}, token

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses a request, or has it handled."""
        if not all(is_own_host(header, self.names) for header in request.headers.getall("Host", [])):
            return web.Response(status=403, text="this Host is not one of this console's; --name allows a further one")
        if self._token is not None and not hmac.compare_digest(_brought(request), self._token.encode()):
            return web.Response(status=401, text="a token is needed", headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)


def _brought(request: web.Request) -> bytes:
    return request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
