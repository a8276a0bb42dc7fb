"""Random and mutated frames at a listener with SASL, before a login and after one, on many connections at once.

A frame counts where the broker has read it: by its response, by that to the last frame of its connection, or by the end of
the connection. Frames are drawn from a pool, some of them mutated again: to make a frame takes longer than to refuse it.
"""

from __future__ import annotations

import contextlib
import random
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from coterie.wire.apis import APIS
from coterie.wire.framing import encode_request
from coterie.wire.messages.clients.api_versions import ApiVersionsRequest
from coterie.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from coterie.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from coterie_conformance.fuzzing.inputs import random_struct
from coterie_conformance.fuzzing.target import mutated
from coterie_conformance.hostile.target import PASSWORD, USER, Address

AT_ONCE = 192  # connections: most wait for a request that waits
FRAMES = 40  # that a connection sends in one piece
POOL = 20_000  # frames
MUTATED = 0.05  # of the frames of the pool
SILENT_S = 2.0  # after which a connection is abandoned: its next response may wait for weeks
LIMIT_S = 450.0
LAST = 3  # the correlation id of the frame behind the others
READ_BYTES = 1 << 18
NEVER_MET = frozenset({7, 30000, 30001})  # a broker's own, and coterie's: they are not in the table of a client
_LINGER = struct.pack("ii", 1, 0)  # a reset at the end, so that no port waits


@dataclass(slots=True)
class _Volley:
    """One connection. ``responded``: how many frames behind the login; ``unread``: a part of a response."""

    opened: socket.socket
    since_s: float
    responded: int
    is_over: bool = False
    unread: bytearray = field(default_factory=bytearray)

    def take(self, data: bytes) -> None:
        if not data:
            self.responded, self.is_over = self.responded + 1, True  # the frame that ended it
            return
        self.unread += data
        while len(self.unread) >= 4 and len(self.unread) >= 4 + (size := int.from_bytes(self.unread[:4], "big")):
            if int.from_bytes(self.unread[4:8], "big") == LAST:
                self.responded, self.is_over = FRAMES, True  # a Produce with acks=0 has no response
                return
            del self.unread[: 4 + size]
            self.responded += 1


def frames_before_login(address: Address, amount: int, rng: random.Random) -> str:
    """What may be sent before a login, with random tokens and names, mutated, and noise."""
    return _fire(address, amount, b"", _pieces(_before, rng))


def frames_after_login(address: Address, amount: int, rng: random.Random) -> str:
    """Requests of every API and version with random values, and mutated ones: most of those end their connection."""
    return _fire(address, amount, _login(), _pieces(_after, rng))


def _pieces(frame: Callable[[random.Random], bytes], rng: random.Random) -> Iterator[bytes]:
    """What connections send behind a login."""
    pool = [frame(rng) for _ in range(POOL)]
    last = encode_request(LAST, "c", ApiVersionsRequest(), 0)
    while True:
        frames = rng.choices(pool, k=FRAMES)
        for number in range(FRAMES):
            if rng.random() < MUTATED:
                frames[number] = _sized(mutated(frames[number][4:], rng))
        yield b"".join((*frames, last))


def _before(rng: random.Random) -> bytes:
    kind = rng.randrange(7)
    if kind < 3:
        name = "".join(rng.choice("ab.-_ ß") for _ in range(rng.randrange(30)))
        return encode_request(1, name, ApiVersionsRequest(name, name[::-1]), rng.randrange(5))
    if kind < 6:
        mechanism = rng.choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") * 9 + ("GSSAPI", "", "ß" * 99))
        return encode_request(1, "c", SaslHandshakeRequest(mechanism), 1)
    tokens = (b"\0a\0b", b"n,,n=a,r=b", b"c=biws,r=b,p=", b"", rng.randbytes(rng.randrange(1, 200)))
    return encode_request(1, "c", SaslAuthenticateRequest(rng.choice(tokens)), rng.randrange(3))


def _after(rng: random.Random) -> bytes:
    key = rng.choice(_KEYS)
    api = APIS[key]
    version = rng.randrange(api.advertised.first, api.advertised.last + 1)
    request = random_struct(api.request, version, rng)
    if hasattr(request, "validate_only"):
        request.validate_only = True  # topics that are created stay
    return encode_request(1, "c", request, version)


_KEYS = sorted(APIS.keys() - NEVER_MET)


def _sized(body: bytes) -> bytes:
    """As a whole frame, so that what follows it is read as the next one."""
    return len(body).to_bytes(4, "big") + body


def _login() -> bytes:
    """The two requests of a login by PLAIN."""
    token = b"\0".join((b"", USER.encode(), PASSWORD.encode()))
    handshake = encode_request(1, "c", SaslHandshakeRequest("PLAIN"), 1)
    return handshake + encode_request(2, "c", SaslAuthenticateRequest(token), 1)


def _fire(address: Address, amount: int, login: bytes, pieces: Iterator[bytes]) -> str:
    """Until the broker has read ``amount`` frames behind the login, or `LIMIT_S` are over."""
    began_s = time.monotonic()
    connections = read = 0
    with selectors.DefaultSelector() as selector:
        open_ones: dict[socket.socket, _Volley] = {}
        while read < amount and time.monotonic() - began_s < LIMIT_S:
            while len(open_ones) < AT_ONCE:
                opened = socket.create_connection(address, 30.0)
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
                with contextlib.suppress(OSError):  # it is closed already; seen when it is read
                    opened.sendall(login + next(pieces))
                opened.setblocking(False)
                open_ones[opened] = _Volley(opened, time.monotonic(), -2 if login else 0)
                selector.register(opened, selectors.EVENT_READ)
                connections += 1
            for volley in _ended(selector, open_ones):
                selector.unregister(volley.opened)
                volley.opened.close()
                del open_ones[volley.opened]
                read += max(0, volley.responded)
        for opened in open_ones:
            opened.close()
    return f"{read:,} frames read on {connections:,} connections"


def _ended(selector: selectors.BaseSelector, open_ones: dict[socket.socket, _Volley]) -> list[_Volley]:
    """The connections that are done: closed by the broker, responded to in full, or silent."""
    for key, _ in selector.select(0.05):
        volley = open_ones[key.fileobj]  # type: ignore[index]
        try:
            volley.take(volley.opened.recv(READ_BYTES))
        except OSError:
            volley.take(b"")
    silent_s = time.monotonic() - SILENT_S
    return [volley for volley in open_ones.values() if volley.is_over or volley.since_s < silent_s]
