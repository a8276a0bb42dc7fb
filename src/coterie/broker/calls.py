"""What a handler knows about a request besides its body: the version, and the client that sent it."""

from __future__ import annotations

from dataclasses import dataclass


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


class CannotAnswer(Exception):
    """A request failed whose client waits for no response (a Produce with acks=0): its connection is closed, so that the
    client fetches metadata again."""
