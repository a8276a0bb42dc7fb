"""What a server keeps of a password for SCRAM (RFC 5802), without the digests that make and check it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class ScramMechanism(IntEnum):
    """Numbered as in Kafka's requests (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """Its name in hashlib."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


HASHES = {mechanism.sasl_name: mechanism.digest for mechanism in ScramMechanism}
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384  # that a server keeps, as Kafka's


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password."""

    salt: bytes
    iterations: int
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
