"""What a handler knows about a request besides its body: the version, and the client that sent it."""

from __future__ import annotations

from dataclasses import dataclass
from sys import intern

from coterie.wire.framing import Head


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
class Call:
    """A request's version and its client. ``local_address``: where the client connected to. Not frozen: one is made for every
    request, and a frozen one takes four times as long."""

    api_version: int
    client_id: str
    host: str
    local_address: tuple[str, int]
    software: Software = UNNAMED_SOFTWARE
    port: int = 0


class ClientCalls:
    """The calls of one connection. Most of its requests are alike but for their bodies: ``latest`` is kept for the next request
    whose header ends with ``client``, which begins its body at ``body_at`` (0 before the first one)."""

    __slots__ = ("body_at", "client", "latest")

    def __init__(self) -> None:
        self.client, self.body_at = b"", 0
        self.latest = Call(-1, "", "", ("", 0))

    def connected(self, host: str, port: int, local_address: tuple[str, int]) -> None:
        """Sets the two ends of the connection."""
        self.latest = Call(-1, "", host, local_address, UNNAMED_SOFTWARE, port)

    def of(self, head: Head, client: bytes) -> Call:
        """The call of a request whose header differs from the one before by more than the version."""
        self.client, self.body_at = client, head.body_at
        return self._next(head.api_version, intern(head.client_id or ""), self.latest.software)

    def in_version(self, version: int) -> Call:
        """The call of a request of another version."""
        return self._next(version, self.latest.client_id, self.latest.software)

    def named(self, software: Software, version: int) -> Call:
        """The call of the ApiVersions that named the client's software; the calls after it have that software too."""
        return self._next(version, self.latest.client_id, software)

    def _next(self, version: int, client_id: str, software: Software) -> Call:
        old = self.latest
        call = self.latest = Call(version, client_id, old.host, old.local_address, software, old.port)
        return call


class CannotAnswer(Exception):
    """A request failed whose client waits for no response (a Produce with acks=0): its connection is closed, so that the
    client fetches metadata again."""
