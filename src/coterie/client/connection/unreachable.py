"""The error of a connection that could not be opened. `ssl` is imported where there is an error to look at: a connection
without TLS does without it."""

from __future__ import annotations

import os
import re
import socket

from coterie.client.errors import KafkaError, SslAuthenticationError
from coterie.wire.errors import ErrorCode
from coterie.wire.primitives import WireError

# What opening a connection and the first responses may raise. Of a host or port that is none: ValueError (a NUL, no IDNA) and
# OverflowError; of responses that cannot be read: WireError, a ValueError.
UNREACHABLE = (OSError, OverflowError, ValueError)

_NO_SUCH_HOST = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}
_ERRNO = re.compile(r"\[Errno (-?\d+)\]")


def not_opened(host: str, port: int, error: Exception, timeout_s: float) -> KafkaError:
    """The error of a connection that could not be opened. A failed TLS handshake is not retried (SslTransportLayer)."""
    address = f"{host if host.isprintable() else repr(host)}:{port}"
    if is_tls_error(error) and not _is_lost_connection(error):
        return SslAuthenticationError(ErrorCode.NETWORK_EXCEPTION, f"the TLS handshake with {address} failed: {error}")
    if isinstance(error, WireError):
        why = f"what answers is no Kafka broker ({error})"
    elif isinstance(error, TimeoutError):
        why = f"no response within {timeout_s:g} s"
    else:
        why = _reason(error)
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no broker answers at {address}: {why}")


def is_unresolved(error: KafkaError) -> bool:
    """Whether it is `not_opened`'s, of a host that no name service knows."""
    cause = error.__cause__
    return isinstance(cause, socket.gaierror) and cause.errno in _NO_SUCH_HOST


def is_tls_error(error: Exception) -> bool:
    """Whether TLS raised it."""
    import ssl

    return isinstance(error, ssl.SSLError)


def _is_lost_connection(error: Exception) -> bool:
    """Of TLS's errors, those of a lost connection, not of a refusal."""
    import ssl

    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)


def _reason(error: Exception) -> str:
    """The system's words for an error of asyncio's, which names each address and number; of several addresses, all reasons."""
    numbers = dict.fromkeys(int(number) for number in _ERRNO.findall(str(error)))
    if numbers and all(number > 0 for number in numbers):
        return ", ".join(map(os.strerror, numbers))
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error) or type(error).__name__
