"""What a handler knows about a request besides its body: the version, and the client that sent it."""

from __future__ import annotations

from coterie.lazy_dataclass import dataclass
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
    """The calls of one connection, ``by_version`` of the API. Most of its requests are alike but for their bodies: a call is
    kept for the next request whose header ends with ``client``; its body begins at ``body_at``."""

    __slots__ = ("body_at", "by_version", "client", "client_id", "host", "local_address", "port", "software")

    def __init__(self) -> None:
        self.host, self.port = "", 0
        self.local_address: tuple[str, int] = ("", 0)
        self.client_id, self.software = "", UNNAMED_SOFTWARE
        self.client, self.body_at = b"", 0
        self.by_version: dict[int, Call] = {}

    def of(self, head: Head, client: bytes) -> Call:
        """The call of a request whose header differs from those before."""
        if client != self.client:
            self.by_version.clear()
        self.client_id = head.client_id or ""
        self.client, self.body_at = client, head.body_at
        return self._add(head.api_version)

    def named(self, software: Software, version: int) -> Call:
        """The call of the ApiVersions that named the client's software; the calls after it have that software too."""
        self.software = software
        self.by_version.clear()
        return self._add(version)

    def _add(self, version: int) -> Call:
        call = Call(version, self.client_id, self.host, self.local_address, self.software, self.port)
        self.by_version[version] = call
        return call


class CannotAnswer(Exception):
    """A request failed whose client waits for no response (a Produce with acks=0): its connection is closed, so that the
    client fetches metadata again."""
