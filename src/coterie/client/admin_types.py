"""What `Admin` returns of the cluster, topics, settings and groups, by the names of Kafka's Admin.

The values are frozen; nothing in them is a message of the protocol, so that a new version of an API changes none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import NamedTuple

from coterie.client.types import TopicPartition
from coterie.wire.errors import ErrorCode


class GroupState(StrEnum):
    """The state of a group, by Kafka's spelling (org.apache.kafka.common.GroupState); also a str. A state that this client
    does not know is UNKNOWN. ASSIGNING, RECONCILING and NOT_READY exist only in groups of the newer protocols."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"

    @classmethod
    def _missing_(cls, value: object) -> GroupState:
        return cls.UNKNOWN


class GroupType(StrEnum):
    """The protocol of a group (org.apache.kafka.common.GroupType); UNKNOWN where the broker does not report it (before
    Kafka 3.7)."""

    UNKNOWN = "Unknown"
    CONSUMER = "Consumer"
    CLASSIC = "Classic"
    SHARE = "Share"
    STREAMS = "Streams"

    @classmethod
    def _missing_(cls, value: object) -> GroupType:
        return next((t for t in cls if t.value.lower() == str(value).lower()), cls.UNKNOWN)


class ConfigSource(Enum):
    """Where the value of a setting comes from (ConfigEntry.ConfigSource); the numbers are those of the protocol."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Node:
    """A broker. ``host`` is "" and ``port`` -1 for a replica that the cluster does not name among its brokers."""

    id: int
    host: str = ""
    port: int = -1
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster. ``controller`` is None while there is none."""

    cluster_id: str
    controller: Node | None
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class TopicPartitionInfo:
    """A partition: its leader (None while it has none), all replicas, the preferred leader first, those in sync, the leader's
    epoch (-1 where the broker does not report it: before Kafka 2.3), and the replicas whose broker or disk is offline (before
    Kafka 1.0 none)."""

    partition: int
    leader: Node | None
    replicas: tuple[Node, ...]
    isr: tuple[Node, ...]
    leader_epoch: int = -1
    offline_replicas: tuple[Node, ...] = ()

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment in progress, in ids of brokers. ``replicas``: all that there are now; the removed replicas go when the
    added ones are in sync."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic. ``topic_id`` is in base64, as Kafka's tools print it; None where the broker reports none (before Kafka 2.8).
    ``error`` is NONE, or why the broker does not describe the topic, for instance UNKNOWN_TOPIC_OR_PARTITION; then there are
    no partitions."""

    name: str
    topic_id: str | None
    partitions: tuple[TopicPartitionInfo, ...]
    is_internal: bool = False
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """The value of a setting, as text; None for a value that the broker keeps to itself (``is_sensitive``) or that is not
    set."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool = False
    is_read_only: bool = False

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it, neither on the topic nor on the broker."""
        return self.source is ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in `Admin.list_groups`. ``protocol_type`` is "consumer" for consumers, "" for a group that only has
    offsets."""

    group_id: str
    protocol_type: str
    state: GroupState
    type: GroupType

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether the group has never had members."""
        return not self.protocol_type


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What a consumer sent when it joined: the topics it reads, the partitions it owned, and of which generation (-1 where
    it did not state one). ``version`` is that of the consumer protocol: from 1 on (Kafka 2.4) members state what they own.
    Of a consumer group's member (KIP-848): topics by name, what it owns now, its epoch as ``generation``, and version -1."""

    topics: frozenset[str]
    owned_partitions: frozenset[TopicPartition]
    generation: int
    rack: str | None
    user_data: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """The partitions of a member; empty where the group is not Stable, or its protocol type is not "consumer"."""

    topic_partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberTasks:
    """The tasks of a stream thread by Kafka's names (``1_3``: partition 3 of subtopology 1): active ones process, standbys
    follow them, and warm-ups restore so as to be active later."""

    active: frozenset[str] = frozenset()
    standby: frozenset[str] = frozenset()
    warmup: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member. ``host`` is its address as the broker sees it. ``subscription`` is None where the group is not Stable, or its
    protocol type is not "consumer"; the bytes as they are on the wire stay in ``member_metadata`` and ``member_assignment``
    for other protocol types (Kafka Connect).

    Only of a group of type CONSUMER (KIP-848): ``member_epoch``, which is its generation there, and ``target_assignment``, what
    the broker wants it to own; ``assignment`` is what it may use now. ``upgraded``: whether it uses the consumer protocol; None
    where the broker does not report it (before Kafka 4.0).

    Only of a group of type STREAMS (KIP-1071): ``tasks``, ``target_tasks`` and ``process_id``, that of its application's
    instance; ``assignment`` has the partitions that its active tasks read."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: MemberAssignment
    subscription: MemberSubscription | None = None
    member_metadata: bytes = b""
    member_assignment: bytes = b""
    member_epoch: int | None = None
    target_assignment: MemberAssignment | None = None
    upgraded: bool | None = None
    tasks: MemberTasks | None = None
    target_tasks: MemberTasks | None = None
    process_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A group with its members. ``partition_assignor`` is the assignor in force, "" while there is none. ``group_epoch`` and
    ``target_assignment_epoch`` exist only where ``type`` is CONSUMER (KIP-848), SHARE (KIP-932) or STREAMS (KIP-1071): the
    second is behind until the broker has computed the assignment of the first."""

    group_id: str
    state: GroupState
    protocol_type: str
    partition_assignor: str
    members: tuple[MemberDescription, ...]
    coordinator: Node
    type: GroupType = GroupType.CLASSIC
    group_epoch: int | None = None
    target_assignment_epoch: int | None = None

    @property
    def is_simple_consumer_group(self) -> bool:
        """Whether the group has never had members."""
        return not self.protocol_type

    @property
    def owners(self) -> dict[TopicPartition, MemberDescription]:
        """Each assigned partition with its member."""
        return {tp: member for member in self.members for tp in member.assignment.topic_partitions}


class PartitionLag(NamedTuple):
    """Where a group is in a partition: the offset of the next record to process, and the end of the log."""

    committed_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """In records; 0 where the log ends before the committed offset."""
        return max(self.end_offset - self.committed_offset, 0)


class SharePartitionOffset(NamedTuple):
    """Where a share group is in a partition: every record before ``start_offset`` is acknowledged or archived. ``lag``: the
    records from there to the end of the log that are neither; None where the broker does not know it, which is so until a
    member fetches, and before Kafka 4.2."""

    start_offset: int
    leader_epoch: int
    lag: int | None
