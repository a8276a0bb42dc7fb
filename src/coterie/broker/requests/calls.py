"""What a handler knows about a request besides its body: the version, the client id, and the connection it came by."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.broker.requests.connection import ClientConnection


@dataclass(slots=True)
class Call:
    """The header of a request. Not frozen: many are made, and a frozen one takes four times as long."""

    api_version: int
    client_id: str
    connection: ClientConnection

    @property
    def client(self) -> str:
        """The client's software, or else its client id."""
        return self.connection.software.text or self.client_id or "unnamed"


class CannotRespond(Exception):
    """A request has no response, and its connection is closed; "" where the reason was logged before."""
