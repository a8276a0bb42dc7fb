"""What a producer's machine needs of its settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.machines.backoff import Backoff
from coterie.records import compression


@dataclass(frozen=True, slots=True)
class ProducingConfig:
    """Times in ms, sizes in bytes, by the names of Kafka's ProducerConfig. ``codec`` is that of record batches;
    ``request_timeout_ms`` goes into every request. ``acks``: -1 (all), 0 or 1; ``is_idempotent`` only with -1."""

    acks: int = -1
    is_idempotent: bool = True
    batch_size: int = 16_384
    linger_ms: float = 5
    buffer_memory: int = 33_554_432
    delivery_timeout_ms: float = 120_000
    request_timeout_ms: int = 30_000
    max_request_size: int = 1_048_576
    max_in_flight: int = 5
    backoff: Backoff = field(default_factory=Backoff)
    codec: int = compression.NONE
