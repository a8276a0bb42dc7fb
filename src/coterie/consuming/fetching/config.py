"""The settings of the fetching machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.machines.backoff import Backoff
from coterie.wire.messages.logs.fetch import FetchRequest


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """Kafka's fetch settings. ``incremental``: by fetch sessions (KIP-227). ``as_stored``: every batch is handed out, also
    control batches and batches of aborted transactions. ``timeout_ms``: a partition that fails for longer is reported and
    not fetched again. ``validates``: positions are validated after an election (KIP-320); ``has_reset_policy``: a position
    that was cut off is reset to where the logs still agree, one that the log does not have by a look-up, else either is
    reported with every poll. ``replica_max_age_ms``: for so long a replica that the leader names is read from (KIP-392)."""

    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_wait_ms: int = 500
    max_partition_bytes: int = 1_048_576
    buffer_bytes: int = 13_107_200
    committed_only: bool = False
    check_crcs: bool = True
    rack_id: str = ""
    incremental: bool = True
    as_stored: bool = False
    backoff: Backoff = field(default_factory=Backoff)
    timeout_ms: float = float("inf")
    validates: bool = False
    has_reset_policy: bool = True
    replica_max_age_ms: float = 300_000

    def request(self) -> FetchRequest:
        """A Fetch without partitions yet."""
        return FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            isolation_level=int(self.committed_only),
            rack_id=self.rack_id,
        )
