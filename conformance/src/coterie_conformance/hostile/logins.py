"""Attacks on listeners with TLS and SASL, before a client has logged in and after. Each raises `BoundBrokenError` where the
broker does not hold the bound that the attack is about."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import ssl
import struct
import subprocess
import time
from collections.abc import Iterator

from coterie.authentication.sasl import MAX_ITERATIONS
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.security import Security
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from coterie_conformance.hostile.attacks import send, sockets
from coterie_conformance.hostile.target import PASSWORD, UNAUTHENTICATED_MS, USER, Address, Attack, BoundBrokenError
from coterie_conformance.hostile.volleys import frames_after_login, frames_before_login

SASL, TLS = "SASL_PLAINTEXT", "SASL_SSL"  # the listeners
LATE_S = 5.0  # connections are looked at once a second
RECEIVE_BYTES = 524_288  # sasl.server.max.receive.size
HUGE_ITERATIONS = (MAX_ITERATIONS + 1, 10**9, 2**31 - 1)


def half_open(address: Address, amount: int, rng: random.Random) -> str:
    """Connections that send nothing, half of a ClientHello, or a whole one and no more."""
    whole = _hello()
    pieces = (b"", whole[: len(whole) // 2], whole)
    with sockets(address, amount) as opened:
        for number, s in enumerate(opened):
            send(s, pieces[number % 3])
        _until_closed(opened)
    return f"{len(opened):,} opened, all closed by the broker"


def slow_handshakes(address: Address, amount: int, rng: random.Random) -> str:
    """A ClientHello a byte at a time."""
    whole = _hello()
    with sockets(address, amount) as opened:
        ends_s = time.monotonic() + UNAUTHENTICATED_MS / 1000
        for at in range(len(whole)):
            if time.monotonic() > ends_s:
                break
            for s in opened:
                send(s, whole[at : at + 1])
            time.sleep(0.2)
        _until_closed(opened)
    return f"{len(opened):,} opened, all closed by the broker"


def _hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def _until_closed(opened: list[socket.socket]) -> None:
    """Raises BoundBrokenError."""
    ends_s = time.monotonic() + UNAUTHENTICATED_MS / 1000 + LATE_S
    waiting = {s.fileno(): s for s in opened}
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    while waiting and time.monotonic() < ends_s:
        for fd, _ in poll.poll(200):
            if _is_closed(waiting[fd]):
                poll.unregister(fd)
                del waiting[fd]
    if waiting:
        raise BoundBrokenError(f"{len(waiting)} connections without a login are still open")


def _is_closed(s: socket.socket) -> bool:
    try:
        return not s.recv(1 << 16)
    except OSError:
        return True


def renegotiations(address: Address, amount: int, rng: random.Random) -> str:
    """TLS 1.2 whose client asks for another handshake within it, by `openssl s_client`, which has a key for that."""
    refused = 0
    for _ in range(amount):
        command = ["openssl", "s_client", "-connect", f"{address[0]}:{address[1]}", "-tls1_2"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as client:
            assert client.stdin is not None
            assert client.stdout is not None
            for line in client.stdout:
                if line.startswith("---") or "Verify return code" in line:
                    with contextlib.suppress(OSError):
                        client.stdin.write("R\n")
                        client.stdin.flush()
                refused += "no renegotiation" in line or "no_renegotiation" in line
                if "RENEGOTIATING" in line:
                    with contextlib.suppress(OSError):  # it may have ended, of the refusal
                        client.stdin.close()
    if refused < amount:
        raise BoundBrokenError(f"{amount - refused} of {amount} renegotiations are not refused")
    return f"{refused} refused"


def oversized_frames(address: Address, amount: int, rng: random.Random) -> str:
    """Requests before a login that are larger than sasl.server.max.receive.size; and others of that size, half of each sent."""
    half = bytes(RECEIVE_BYTES // 2)
    with sockets(address, amount) as opened:
        for s in opened:
            send(s, struct.pack(">i", RECEIVE_BYTES) + half)
        with sockets(address, 10) as others:
            for s in others:
                s.settimeout(2.0)
                send(s, struct.pack(">i", RECEIVE_BYTES + 1) + b"\0\x12\0\0")
                if not _is_closed_in_time(s):
                    raise BoundBrokenError(f"a request of {RECEIVE_BYTES + 1} bytes is awaited before a login")
    return f"{len(opened) * len(half) / 1e6:.0f} MB sent by {len(opened):,}"


def _is_closed_in_time(s: socket.socket) -> bool:
    try:
        return not s.recv(1)
    except TimeoutError:
        return False
    except OSError:
        return True


def iterations(address: Address, amount: int, rng: random.Random) -> str:
    """Credentials of SCRAM with so many iterations that each login would keep its client busy for minutes."""
    security = Security(SASL, mechanism="PLAIN", username=USER, password=PASSWORD)
    broker = BrokerSocket(*address, security=security)
    try:
        for number, count in enumerate(_times(amount, HUGE_ITERATIONS)):
            upsertion = ScramCredentialUpsertion(f"mallory-{number}", 1, count, b"salt" * 4, bytes(32))
            (result,) = broker.request(AlterUserScramCredentialsRequest(upsertions=[upsertion])).results
            if result.error_code != ErrorCode.UNACCEPTABLE_CREDENTIAL:
                raise BoundBrokenError(f"a credential of {count:,} iterations is accepted")
    finally:
        broker.close()
    return f"{amount} refused"


def _times(amount: int, values: tuple[int, ...]) -> Iterator[int]:
    return (values[number % len(values)] for number in range(amount))


LOGIN_ATTACKS = (
    Attack("frames before a login", frames_before_login, 1_000_000, 500, False, SASL),
    Attack("frames after a login", frames_after_login, 1_000_000, 500, False, SASL),
    Attack("half-open connections of TLS", half_open, 10_000, 60, False, TLS),
    Attack("handshakes of TLS, a byte at a time", slow_handshakes, 1_000, 20, False, TLS),
    Attack("renegotiations of TLS", renegotiations, 20, 1, False, TLS),
    Attack("requests half sent before a login", oversized_frames, 1_000, 20, False, SASL),
    Attack("iterations of SCRAM", iterations, 1_000, 6, False, SASL),
)
