"""PLAIN (RFC 4616) as a server: one token with the user and the password."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping

from coterie.authentication.exchange import Authenticated, AuthenticationFailed, Exchange

_REFUSED = "authentication failed: the user or the password is wrong"
MAX_NAME_BYTES = 1_024


def plain(is_password: Callable[[str, str], bool]) -> Exchange:
    """``is_password`` takes as long for an unknown user as for a wrong password."""
    token = yield b""
    parts = token.split(b"\0")
    if len(parts) != 3:
        raise AuthenticationFailed("authentication failed: a token of PLAIN is [user] NUL user NUL password")
    try:
        authorization, user, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise AuthenticationFailed("authentication failed: a token of PLAIN is UTF-8") from None
    if len(parts[1]) > MAX_NAME_BYTES or not user or not password or not is_password(user, password):
        raise AuthenticationFailed(_REFUSED)
    if authorization not in ("", user):
        raise AuthenticationFailed("authentication failed: a client cannot act for another user")
    return Authenticated(user)


def is_password_of(passwords: Mapping[str, str], user: str, password: str) -> bool:
    """Compares with the user's password in a time that does not hang on either."""
    known = passwords.get(user)
    expected = password if known is None else known
    return hmac.compare_digest(expected.encode(), password.encode()) and known is not None
