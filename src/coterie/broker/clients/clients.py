"""The clients of a broker, as one value of its services: who was seen, what they push, and what administrators set for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from coterie.authentication.delegation_tokens import TokenLimits
from coterie.broker.clients.acls import Acls
from coterie.broker.clients.delegation_tokens import DelegationTokens
from coterie.broker.clients.logins import Logins
from coterie.broker.clients.quotas import ClientQuotas
from coterie.broker.clients.scram_credentials import ScramCredentials
from coterie.broker.clients.telemetry import Telemetry
from coterie.broker.clients.throttling import Throttling
from coterie.broker.process.scheduling import Clock
from coterie.broker.requests.calls import Call
from coterie.broker.settings import BrokerSettings
from coterie.log.filesystem import FileSystem

REMEMBERED = 10_000


@dataclass(slots=True)
class SeenClient:
    """``software``: the library that it named last (KIP-511); ``fetched_ms``: its last fetch, the broker's nearest sign of a
    poll. None where there was none."""

    software: str | None = None
    fetched_ms: int | None = None


_UNSEEN = SeenClient()


class SeenClients:
    """The last `REMEMBERED` clients, by client id and host: all that the members of a group are known by."""

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


class Clients:
    """``fs`` has quotas, credentials and tokens; ``new_id`` makes the ids of tokens, and of clients that push metrics.
    ``acls``: None without an authorizer. ``is_alone``: the broker keeps them; in a cluster ZooKeeper does."""

    def __init__(
        self,
        fs: FileSystem,
        settings: BrokerSettings,
        clock: Clock,
        new_id: Callable[[], bytes],
        acls: Acls | None = None,
        *,
        is_alone: bool = True,
    ) -> None:
        self.acls = acls
        self.seen = SeenClients()
        self.quotas = ClientQuotas(fs, is_alone=is_alone)
        own = settings.current
        self.throttling = Throttling(
            self.quotas,
            own.quota_window_num,
            own.quota_window_size_seconds * 1_000,
            own.controller_quota_window_num * own.controller_quota_window_size_seconds,
        )
        self.scram_credentials = ScramCredentials(fs, is_alone=is_alone)
        limits = TokenLimits(
            (own.delegation_token_secret_key or own.delegation_token_master_key or "").encode(),
            own.delegation_token_max_lifetime_ms,
            own.delegation_token_expiry_time_ms,
        )
        self.tokens = DelegationTokens(fs, limits, new_id, is_alone=is_alone)
        self.logins = Logins(settings, self.scram_credentials, self.tokens, clock.now_ms)
        self.telemetry = Telemetry(settings.current.telemetry_max_bytes, new_id)
