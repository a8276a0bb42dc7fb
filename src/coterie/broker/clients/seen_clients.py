"""The clients that a broker has seen, by client id and host: all that the members of a group are known by."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.broker.requests.calls import Call

REMEMBERED = 10_000


@dataclass(slots=True)
class SeenClient:
    """``software``: the library that it named last (KIP-511); ``fetched_ms``: its last fetch, the broker's nearest sign of a
    poll. None where there was none."""

    software: str | None = None
    fetched_ms: int | None = None


_UNSEEN = SeenClient()


class SeenClients:
    """The last `REMEMBERED` of them."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], SeenClient] = {}

    def get(self, client_id: str, host: str) -> SeenClient:
        """What is known of a client."""
        return self._seen.get((client_id, host), _UNSEEN)

    def fetched(self, call: Call, now_ms: int) -> None:
        """Records the time of a client's fetch."""
        seen = self._seen.get((call.client_id, call.connection.host))
        if seen is None:
            seen = self._add(call)
        seen.fetched_ms = now_ms

    def named(self, call: Call) -> None:
        """Records the library that a client has named; it is the last seen."""
        seen = self._seen.pop((call.client_id, call.connection.host), None)
        fetched_ms = None if seen is None else seen.fetched_ms
        self._add(call).fetched_ms = fetched_ms

    def _add(self, call: Call) -> SeenClient:
        if len(self._seen) >= REMEMBERED:
            del self._seen[next(iter(self._seen))]
        software = call.connection.software.text or None
        seen = self._seen[call.client_id, call.connection.host] = SeenClient(software)
        return seen
