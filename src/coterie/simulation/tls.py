"""TLS over the simulated network: OpenSSL's, in memory, by the protocol that asyncio has for it.

OpenSSL's randomness is its own: a piece of such a connection is in the trace by its time, not by its bytes. OpenSSL's clock is
the real one: while a world runs it looks at no date, and `SSLObject.do_handshake` compares the dates of the peer's own
certificate (none of its authorities') with the world's clock. Where a certificate is refused by its dates, no alert is sent.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import ssl
from collections.abc import Callable
from typing import Any

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which `ssl.VerifyFlags` does not name
# OpenSSL's, with its codes.
_NOT_YET_VALID = 9, "certificate is not yet valid"
_EXPIRED = 10, "certificate has expired"
_WRAP_BIO, _DO_HANDSHAKE = ssl.SSLContext.wrap_bio, ssl.SSLObject.do_handshake


def secured(
    loop: asyncio.AbstractEventLoop,
    protocol: asyncio.BaseProtocol,
    context: ssl.SSLContext | bool,
    waiter: asyncio.Future[Any] | None,
    options: dict[str, Any],
) -> asyncio.sslproto.SSLProtocol:
    """The protocol of a transport whose bytes are TLS; ``protocol`` is within. ``waiter`` ends with the handshake; None for a
    server. ``options``: those of `create_connection` or `create_server`."""
    return asyncio.sslproto.SSLProtocol(
        loop,
        protocol,
        None if isinstance(context, bool) else context,  # type: ignore[arg-type]  # as asyncio's own loops
        waiter,  # type: ignore[arg-type]
        server_side=waiter is None,
        server_hostname=options.get("server_hostname"),
        ssl_handshake_timeout=options.get("ssl_handshake_timeout"),
        ssl_shutdown_timeout=options.get("ssl_shutdown_timeout"),
    )


def wrap_bio(context: ssl.SSLContext, *arguments: Any, **options: Any) -> ssl.SSLObject:
    """`SSLContext.wrap_bio` of an object that looks at no date."""
    flags = context.verify_flags
    context.verify_flags = ssl.VerifyFlags(flags | _NO_CHECK_TIME)
    try:
        return _WRAP_BIO(context, *arguments, **options)
    finally:
        context.verify_flags = flags


def do_handshake(tls: ssl.SSLObject, wall_s: Callable[[], float]) -> None:
    """`SSLObject.do_handshake`; ``wall_s`` has the seconds since 1970. Raises SSLError."""
    _DO_HANDSHAKE(tls)
    certificate: Any = tls.getpeercert()
    if not certificate:  # none, or it is not verified
        return
    if wall_s() < ssl.cert_time_to_seconds(certificate["notBefore"]):
        raise _refusal(*_NOT_YET_VALID)
    if wall_s() > ssl.cert_time_to_seconds(certificate["notAfter"]):
        raise _refusal(*_EXPIRED)


def _refusal(code: int, why: str) -> ssl.SSLCertVerificationError:
    """As OpenSSL's."""
    text = f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {why}"
    error = ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, text)
    error.reason, error.verify_code, error.verify_message = "CERTIFICATE_VERIFY_FAILED", code, why
    return error
