"""What a request over HTTP passes before its handler: its Host, and the token that it bears. Needs the extra coterie[http]."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from coterie.authentication.bearer import bears
from coterie.text.addresses import is_own_host

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpGuard:
    """``names``: accepted in the Host header, besides those of loopback. ``token``: what each request must bear; None for none.
    ``option`` allows a further name."""

    def __init__(self, names: Iterable[str], token: str | None, option: str) -> None:
        self._names, self._token, self._option = {"localhost", *(name.lower() for name in names)}, token, option

    def add_name(self, name: str) -> None:
        """An address of the server."""
        self._names.add(name.lower())

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses a request, or has it handled. DNS rebinding: a page of another site has its own name lead here, so that the
        browser takes our responses for that site's. The browser still sends that name."""
        if not all(is_own_host(header, self._names) for header in request.headers.getall("Host", [])):
            return error_response(
                403, f"this Host is not one of this server's; `{self._option} NAME` allows a further name"
            )
        if self._token is None or bears(request.headers.get("Authorization", ""), self._token):
            return await handler(request)
        response = error_response(401, "a token is needed")
        response.headers["WWW-Authenticate"] = "Bearer"
        return response


def error_response(status: int, text: str) -> web.Response:
    """As JSON."""
    return web.json_response({"error": text}, status=status)
