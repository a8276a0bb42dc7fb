"""What a handler knows about a request besides its body: the version, the client id, and the client's connection: its listener
and addresses, the software that the client names, and its principal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coterie.authentication.principal import ANONYMOUS, Principal
from coterie.authentication.sasl import Exchange
from coterie.broker.settings.listeners import PLAINTEXT_LISTENER, Listener

_BEFORE_AUTHENTICATION = frozenset({17, 18, 36})  # SaslHandshake, ApiVersions, SaslAuthenticate


@dataclass(frozen=True, slots=True)
class Software:
    """A client's library as its ApiVersions names it (KIP-511); empty where it did not."""

    name: str = ""
    version: str = ""

    @property
    def text(self) -> str:
        """Name and version with a space between; "" where the client named neither."""
        return f"{self.name} {self.version}".strip()


UNNAMED_SOFTWARE = Software()


@dataclass(slots=True)
class Authentication:
    """The state of SASL of one connection. ``mechanism`` and ``exchange``: by its SaslHandshake. ``session_ends_s``: on the
    loop's clock; the client must have authenticated again by then (KIP-368). ``is_raw``: tokens come as frames without a
    header, after version 0 of the handshake. ``is_refused``: the connection ends once its response is written.
    ``is_logged``: the log has a line for the refusal, before the client has acknowledged it. ``is_by_token``:
    the login was by a delegation token. ``changed`` is called when a login begins in such frames, and after each login."""

    mechanism: str = ""
    is_complete: bool = False
    session_ends_s: float = math.inf
    exchange: Exchange | None = None
    is_raw: bool = False
    is_refused: bool = False
    is_logged: bool = False
    is_by_token: bool = False
    changed: Callable[[], None] = lambda: None


@dataclass(slots=True)
class ClientConnection:
    """What any handler may use of its `Call`. ``host``: "/" and the address, as DescribeGroups shows it; ``local_address``:
    where the client connected to; ``authentication``: None on a listener without SASL. Handlers set what they learn:
    ApiVersions the software, SASL the ``principal``, ShareFetch what is called ``on_closed``, and the checks of an authorizer
    keep the client's ``access`` here."""

    host: str
    port: int = 0
    local_address: tuple[str, int] = ("", 0)
    listener: Listener = PLAINTEXT_LISTENER
    software: Software = UNNAMED_SOFTWARE
    principal: Principal = ANONYMOUS
    authentication: Authentication | None = None
    on_closed: Callable[[ClientConnection], None] | None = None
    access: Any = None

    def admits(self, api_key: int, now_s: float) -> bool:
        """Whether a request of that API is handled: without a session, only the requests that lead to one."""
        state = self.authentication
        if state is None or (api_key in _BEFORE_AUTHENTICATION and not state.is_refused):
            return True
        return state.is_complete and now_s < state.session_ends_s


@dataclass(slots=True)
class Call:
    """The header of a request. Not frozen: many are made, and a frozen one takes four times as long."""

    api_version: int
    client_id: str
    connection: ClientConnection

    @property
    def client(self) -> str:
        """The client's software, or else its client id."""
        return self.connection.software.text or self.client_id or "unnamed"


class CannotRespond(Exception):
    """A request has no response, and its connection is closed; "" where the reason was logged before."""
