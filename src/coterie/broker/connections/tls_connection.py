"""TLS between a connection's socket and its `AcceptedConnection`, which is counted, bounded and idle from its first byte on.

asyncio's own TLS takes 256 KiB for each connection before the client has sent anything, and tells nobody about a handshake
that does not end. A step of a handshake takes a millisecond of the loop: it waits for its turn, behind the clients that have
logged in. OpenSSL has no part in a connection before its first record is whole: it takes 20 KiB for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any, Protocol

from coterie.authentication.principal import USER, NoRule, Principal, distinguished_name, mapped_name
from coterie.broker.connections.listener_tls import ListenerTls
from coterie.broker.process.loggers import LogLines
from coterie.broker.requests.calls import ClientConnection
from coterie.broker.requests.memory import RequestMemory
from coterie.broker.requests.turns import Turns
from coterie.runtime.receiver import Receiver

MAX_HANDSHAKE_BYTES = 65_536  # that wait for a step
_RECORD_BYTES = 16_384
_HANDSHAKE, _RECORD_HEAD = 22, 5  # the type of a record, and the size of its head: type, version, uint16 length
_WRITE_BYTES = 1_048_576  # encrypted before they are given to the socket


class Inner(Protocol):
    """The connection within TLS."""

    connection: ClientConnection

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, error: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def secured(self) -> None: ...


class TlsOwner(Protocol):
    """What TLS uses of its broker."""

    turns: Turns
    log_lines: LogLines
    request_memory: RequestMemory


class TlsConnection(Receiver):
    """The protocol of the socket; bytes of the client within go to ``inner``."""

    __slots__ = (
        "_began",
        "_hello",
        "_in_line",
        "_incoming",
        "_inner",
        "_is_secure",
        "_outgoing",
        "_owner",
        "_raw",
        "_settings",
        "tls",
    )

    def __init__(self, owner: TlsOwner, settings: ListenerTls, inner: Inner) -> None:
        super().__init__(reads_less=owner.request_memory.has_limit)
        self._owner, self._inner = owner, inner
        self._settings = settings
        self._hello = b""  # a part of the first record
        self._incoming: ssl.MemoryBIO = None  # type: ignore[assignment]  # these three: until that is whole
        self._outgoing: ssl.MemoryBIO = None  # type: ignore[assignment]
        self.tls: ssl.SSLObject = None  # type: ignore[assignment]
        self._in_line = False  # the next step of the handshake waits for its turn
        self._began = False  # bytes of a handshake have come, and it has neither succeeded nor failed
        self._is_secure = False
        self._raw: asyncio.Transport = None  # type: ignore[assignment]

    # -- Receiver -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._raw = transport
        self._inner.connection_made(_TlsTransport(transport, self))

    def connection_lost(self, error: Exception | None) -> None:
        if self._began:  # asyncio's client sends no alert for a certificate that it refuses
            self._fail("the client ended the handshake")
        inner, self._inner = self._inner, _GONE
        inner.connection_lost(error)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes of a handshake wait for a turn; later ones are decrypted at once."""
        if self._is_secure:
            self._incoming.write(self._received[:nbytes])
            self._decrypt()
        else:
            self.data_received(bytes(self._received[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Takes bytes of a handshake."""
        if self.tls is None and not self._begin(data):
            return
        self._incoming.write(data)
        if self._incoming.pending > MAX_HANDSHAKE_BYTES:
            self._fail(f"more than {MAX_HANDSHAKE_BYTES} bytes")
        elif not self._in_line:
            self._in_line = True
            self._owner.turns.add(self._shake_hands, of_stranger=True)

    def eof_received(self) -> bool:
        return self._inner.eof_received()

    # -- the handshake ------------------------------------------------------------------------------------------------

    def _begin(self, data: bytes) -> bool:
        """Whether the first record is whole with the data, which is to be read then."""
        self._began = True
        whole = self._hello + data
        is_handshake = whole[0] == _HANDSHAKE
        if is_handshake and len(whole) < _RECORD_HEAD + int.from_bytes(whole[3:_RECORD_HEAD], "big"):
            self._hello = whole
            return False
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(self._hello)
        self._hello = b""
        self.tls = self._settings.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        return True

    def _shake_hands(self) -> None:
        self._in_line = False
        if self._raw.is_closing():
            return
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except (ssl.SSLError, OSError) as error:
            self._flush()  # the alert
            self._fail(_reason(error))
            return
        try:
            self._set_principal()
        except NoRule as error:
            self._fail(str(error))
            return
        self._is_secure, self._began = True, False
        self._flush()
        self._inner.secured()
        self._decrypt()

    def _set_principal(self) -> None:
        """Raises NoRule."""
        connection, certificate = self._inner.connection, self.tls.getpeercert()
        if certificate and not connection.listener.has_sasl:
            subject: Any = certificate["subject"]
            connection.principal = Principal(
                USER, mapped_name(self._settings.mapping_rules, distinguished_name(subject))
            )

    def _fail(self, reason: str) -> None:
        self._began = False
        host = self._inner.connection.host
        self._owner.log_lines.warning("closing the connection from %s: its TLS failed: %s", host, reason)
        self._raw.close()

    # -- bytes --------------------------------------------------------------------------------------------------------

    def _decrypt(self) -> None:
        parts: list[bytes] = []
        is_over = False
        try:
            while self._incoming.pending and not is_over:  # a read of nothing costs more than one of a record
                parts.append(self.tls.read(_RECORD_BYTES))  # of one record, all that it has
                is_over = not parts[-1]
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            is_over = True
        except (ssl.SSLError, OSError) as error:
            self._fail(_reason(error))
            return
        if self._outgoing.pending:
            self._flush()  # what TLS itself responds
        data = b"".join(parts)
        if data:
            self._inner.data_received(data)
        if is_over and not self._inner.eof_received():
            self._raw.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypts the data and gives it to the socket."""
        raw, size = self._raw, len(data)
        for at in range(0, size, _WRITE_BYTES):
            if raw.is_closing():
                return
            try:
                self.tls.write(data if size <= _WRITE_BYTES else memoryview(data)[at : at + _WRITE_BYTES])
            except (ssl.SSLError, OSError) as error:
                self._fail(_reason(error))
                return
            raw.write(self._outgoing.read())

    def _flush(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def forget(self) -> None:
        """The connection is aborted, for a reason that has its own line."""
        self._began = False

    def shut_down(self) -> None:
        """Writes the end of TLS; the client's is not waited for."""
        if self._is_secure and not self._raw.is_closing():
            with contextlib.suppress(ssl.SSLError, OSError, ValueError):
                self.tls.unwrap()
            self._flush()


class _TlsTransport(asyncio.Transport):
    """The transport within TLS."""

    __slots__ = ("_raw", "_tls", "is_closing", "write")

    def __init__(self, raw: asyncio.Transport, tls: TlsConnection) -> None:
        self._raw, self._tls = raw, tls
        self.is_closing, self.write = raw.is_closing, tls.write  # type: ignore[method-assign]  # for each response

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def close(self) -> None:
        self._tls.shut_down()
        self._raw.close()

    def abort(self) -> None:
        self._tls.forget()
        self._raw.abort()


class _Gone:
    """In the stead of the inner connection after its end, so that the two do not refer to each other."""

    connection = ClientConnection("")

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, error: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def secured(self) -> None: ...


_GONE = _Gone()


def _reason(error: Exception) -> str:
    """OpenSSL's words: what a certificate fails by, or else the reason."""
    return getattr(error, "verify_message", None) or getattr(error, "reason", None) or str(error)
