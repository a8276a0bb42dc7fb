"""An exchange of SASL as its server has it: a generator that is sent the client's tokens and yields its own.

Pure: credentials are looked up by functions, and randomness is an argument. Every failure of one mechanism has the same text,
so that a client cannot learn whether a user exists.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass


class AuthenticationFailed(Exception):
    """The login is refused; the text is for the client and has no secret in it."""


class RefusalToken(bytes):
    """A token that says that the login is refused, which the client has to acknowledge; not all do."""

    reason: str

    def __new__(cls, token: bytes, reason: str) -> RefusalToken:
        """``reason``: for the broker's log."""
        made = super().__new__(cls, token)
        made.reason = reason
        return made


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The end of an exchange. ``name``: the principal's; ``token``: the last one for the client; ``expires_ms``: when what the
    client showed ends, in ms since the epoch, None where it does not; ``is_by_token``: by a delegation token."""

    name: str
    token: bytes = b""
    expires_ms: int | None = None
    is_by_token: bool = False


Exchange = Generator[bytes, bytes, Authenticated]  # begun by `begin`


def begin(exchange: Exchange) -> Exchange:
    """Up to the wait for the client's first token."""
    next(exchange)
    return exchange


def step(exchange: Exchange, token: bytes) -> bytes | Authenticated:
    """The server's next token, or the end. Raises AuthenticationFailed."""
    try:
        return exchange.send(token)
    except StopIteration as end:
        authenticated: Authenticated = end.value
        return authenticated
