"""What every request passes first, Host, Origin and token, and the headers of every response."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Set
from urllib.parse import urlsplit

from aiohttp import web

from coterie.authentication.bearer import bears, is_same_token
from coterie.text.addresses import is_own_host

SIGN_IN, SESSION_COOKIE = "/sign-in", "coterie_session"
OPEN_PATHS = (SIGN_IN, "/static/")  # without a token
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
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
    """``names``: those of the server in a Host header. ``token``: what a request must bring, as a bearer's or by the cookie of
    a reader who has signed in with it; None for none. ``has_tls``: the cookie is for TLS alone."""

    def __init__(self, names: Set[str], token: str | None = None, *, has_tls: bool = False) -> None:
        self.names, self._token, self._has_tls = {"localhost", *names}, token, has_tls
        self._session = secrets.token_urlsafe(32)  # of this process

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses a request, or has it handled."""
        if not all(is_own_host(header, self.names) for header in request.headers.getall("Host", [])):
            return web.Response(status=403, text="this Host is not one of this console's; --name allows a further one")
        if self._token is None or request.path.startswith(OPEN_PATHS) or self._is_known(request, self._token):
            return await handler(request)
        if "text/html" in request.headers.get("Accept", ""):
            raise web.HTTPFound(SIGN_IN)
        return web.Response(status=401, text="a token is needed", headers={"WWW-Authenticate": "Bearer"})

    def _is_known(self, request: web.Request, token: str) -> bool:
        cookie = request.cookies.get(SESSION_COOKIE, "")
        return bears(request.headers.get("Authorization", ""), token) or is_same_token(cookie, self._session)

    def signed_in(self, token: str) -> web.Response | None:
        """The response to a reader who has brought the token, with a cookie; None for another token."""
        if self._token is None or not is_same_token(token, self._token):
            return None
        response = web.Response(status=303, headers={"Location": "/console"})
        response.set_cookie(SESSION_COOKIE, self._session, httponly=True, secure=self._has_tls, samesite="Strict")
        return response
