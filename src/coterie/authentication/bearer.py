"""The token that a request of HTTP bears (RFC 6750)."""

from __future__ import annotations

import hmac


def is_same_token(given: str, token: str) -> bool:
    """In constant time. What a client sent need not be UTF-8: aiohttp has surrogates for such bytes."""
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())


def bears(authorization: str, token: str) -> bool:
    """Whether a header Authorization has the token; ``authorization`` is "" for a request without it."""
    return is_same_token(authorization.removeprefix("Bearer "), token)
