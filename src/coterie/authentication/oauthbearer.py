"""OAUTHBEARER (RFC 7628) as a server: a token in one message, and an error in JSON that the client has to acknowledge."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from coterie.authentication.exchange import Authenticated, AuthenticationFailed, Exchange, RefusalToken

_PAIRS = r"(?:[A-Za-z]+=[^\x01]*\x01)*"
_FIRST = re.compile(
    rf"[ny],(?:a=([^,]*))?,\x01{_PAIRS}?auth=Bearer +([-A-Za-z0-9._~+/]+=*)\x01{_PAIRS}\x01", re.IGNORECASE
)
_INVALID = b'{"status":"invalid_token"}'


class InvalidToken(Exception):
    """A token that is refused; the text says why, without the token."""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """Of a token that is valid."""

    principal: str
    expires_ms: int


def oauthbearer(validate: Callable[[str], TokenClaims]) -> Exchange:
    """``validate`` raises InvalidToken."""
    message = (yield b"").decode("utf-8", "replace")
    first = _FIRST.fullmatch(message)
    if first is None:
        raise AuthenticationFailed("authentication failed: the first message of OAUTHBEARER has no token")
    authorization, token = first.groups()
    try:
        claims = validate(token)
    except InvalidToken as error:
        refused = f"authentication failed: {error}"
        yield RefusalToken(_INVALID, refused)
        raise AuthenticationFailed(refused) from None
    if authorization not in (None, "", claims.principal):
        raise AuthenticationFailed("authentication failed: a client cannot act for another user")
    return Authenticated(claims.principal, expires_ms=claims.expires_ms)
