"""What `Admin` takes and returns of settings' resources, features, log directories, transactions, delegation tokens and SCRAM
users, by the names of Kafka's Admin. The values are frozen, as those of `admin_types`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeVar

from coterie.client.admin_types import Node
from coterie.client.types import TopicPartition
from coterie.wire.errors import ErrorCode


class ConfigResourceType(IntEnum):
    """What has settings (org.apache.kafka.common.config.ConfigResource.Type); the numbers are those of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A topic, a broker by its id as text ("" for the default of all), the loggers of a broker, a subscription of client
    metrics (KIP-714), or a group."""

    type: ConfigResourceType
    name: str


Resource = TypeVar("Resource", bound=str | ConfigResource)  # a str is a topic's name


class VersionRange(NamedTuple):
    """The lowest and the highest level of a feature."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FeatureMetadata:
    """The features of a broker by name (KIP-584): the levels in force, with the epoch of their last change (None where the
    broker names none), and the levels that it supports."""

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int | None
    supported: Mapping[str, VersionRange]


class FeatureUpgradeType(IntEnum):
    """Whether a level may fall, and lose metadata by it (FeatureUpdate.UpgradeType)."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class ReplicaInfo(NamedTuple):
    """The log of a replica: its size in bytes, how far it is behind the high watermark in offsets, and whether it is the copy
    that will replace another directory's."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory with its replicas. ``error``: NONE, or why it is offline. ``total_bytes`` and ``usable_bytes`` of its
    volume are None where the broker does not know them (before Kafka 3.3)."""

    path: str
    error: ErrorCode
    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None


class TransactionState(StrEnum):
    """The state of a transaction, by Kafka's spelling (org.apache.kafka.clients.admin.TransactionState); also a str."""

    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


class TransactionListing(NamedTuple):
    """A transactional id in `Admin.list_transactions`."""

    transactional_id: str
    producer_id: int
    state: TransactionState


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id as its coordinator has it. ``start_ms``, in ms since 1970, is None and ``partitions`` is empty
    without an open transaction."""

    coordinator: Node
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: frozenset[TopicPartition]


class ActiveProducer(NamedTuple):
    """A producer that the log of a partition knows (ProducerState). ``last_timestamp_ms``: of its last batch, in ms since 1970.
    ``transaction_start_offset``: of its open transaction, None without one. ``coordinator_epoch``: -1 before the first
    transaction has ended."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int | None


@dataclass(frozen=True, slots=True)
class TokenDescription:
    """A delegation token (KIP-48). A client logs in by it with SCRAM, the setting tokenauth, ``token_id`` as user and the
    base64 of ``hmac`` as password. Principals are texts such as "User:alice", times in ms since 1970; no renewal moves
    ``expires_ms`` past ``max_ms``."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A user's new password. ``mechanism``: SCRAM-SHA-256 or SCRAM-SHA-512. ``iterations`` from 4096 to 16384; without
    ``salt`` one is drawn."""

    user: str
    mechanism: str
    password: str = field(repr=False)
    iterations: int = 4096
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """A user's credential of one mechanism, to remove."""

    user: str
    mechanism: str
