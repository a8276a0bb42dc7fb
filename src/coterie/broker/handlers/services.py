"""What handlers use of the broker, by subject. A handler's signature names the part that it needs; `Broker` has them all.

The handlers import these protocols and never the broker, which imports the handlers' table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from coterie.broker.clients.clients import Clients
from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.groups.explanation import GroupSources
from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.process.loggers import LogLines
from coterie.broker.process.scheduling import Clock, Scheduler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.fetch_sessions import FetchSessions
from coterie.broker.requests.memory import ResponseMemory
from coterie.broker.requests.message_sets import MessageSets
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Turns
from coterie.broker.requests.unserved import UnservedRequests
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.altered_settings import KeptConfigs, Resource
from coterie.broker.settings.features import Features
from coterie.broker.share.share_hosting import ShareHosting
from coterie.broker.share_state.end_offsets import EndOffsets
from coterie.broker.share_state.persister import SharePersister
from coterie.broker.share_state.share_coordinator import ShareCoordinator
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replicas import ReplicaEffects
from coterie.broker.storage.topics import Topics
from coterie.wire.declaration import Message
from coterie.wire.messages.clients.api_versions import ApiVersion

if TYPE_CHECKING:
    from coterie.broker.cluster.access_nodes import AclNodes, TokenNodes
    from coterie.broker.cluster.entity_settings import ClientEntities, EntitySettings
    from coterie.broker.cluster.member import ClusterMember
    from coterie.broker.cluster.topic_changes import TopicAdministration
    from coterie.broker.transactions.transaction_coordinator import TransactionCoordinator
    from coterie.broker.transactions.transaction_requests import TransactionRequests
    from coterie.broker.transactions.transaction_verification import VerifiedRequests


class ControlServices(Protocol):
    """For the requests between brokers; ``member`` is None for a broker alone."""

    member: ClusterMember | None
    unserved: UnservedRequests


class LeaderServices(Protocol):
    """What naming the leaders in a response uses."""

    cluster: ClusterView

    def address(self, call: Call) -> tuple[str, int]:
        """The host and port that clients connect to."""


class RecordServices(ControlServices, LeaderServices, Protocol):
    """For Produce, ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

    topics: Topics
    verified_requests: VerifiedRequests
    flusher: Flusher
    replica_effects: ReplicaEffects
    clock: Clock
    turns: Turns
    log_lines: LogLines

    @property
    def scheduler(self) -> Scheduler:
        """The broker's event loop."""


class FetchServices(ControlServices, LeaderServices, Protocol):
    """What Fetch uses. ``max_fetch_bytes`` and ``max_idle_ms``: fetch.max.bytes and connections.max.idle.ms."""

    topics: Topics
    fetch_sessions: FetchSessions
    clients: Clients
    response_memory: ResponseMemory
    message_sets: MessageSets
    clock: Clock
    turns: Turns
    log_lines: LogLines
    max_fetch_bytes: int
    max_idle_ms: int

    @property
    def scheduler(self) -> Scheduler:
        """The broker's event loop."""


class ShareFetchServices(LeaderServices, Protocol):
    """What ShareFetch and ShareAcknowledge use. ``max_fetch_bytes`` and ``max_idle_ms``: as of `FetchServices`."""

    topics: Topics
    clients: Clients
    features: Features
    response_memory: ResponseMemory
    clock: Clock
    log_lines: LogLines
    max_fetch_bytes: int
    max_idle_ms: int

    @property
    def share(self) -> ShareHosting:
        """The share partitions that this broker has."""

    @property
    def scheduler(self) -> Scheduler:
        """The broker's event loop."""


class GroupServices(GroupSources, Protocol):
    """For the requests of groups and of their committed offsets."""

    clients: Clients
    clock: Clock
    settings: BrokerSettings
    features: Features
    turns: Turns
    log_lines: LogLines


class StreamsServices(GroupServices, Protocol):
    """What the handlers of streams groups use: they create topics too."""

    node_id: int
    cluster: ClusterView
    topic_changes: TopicAdministration | None


class TransactionServices(Protocol):
    """For the requests of transactional producers, and for views of them."""

    transactions: TransactionCoordinator
    transaction_requests: TransactionRequests
    verified_requests: VerifiedRequests
    groups: GroupCoordinator
    topics: Topics
    clock: Clock
    turns: Turns


class ShareServices(Protocol):
    """For the requests of share groups, and those to the share coordinator."""

    groups: GroupCoordinator
    topics: Topics
    settings: BrokerSettings
    features: Features
    turns: Turns
    share_coordinator: ShareCoordinator
    share_persister: SharePersister
    share_ends: EndOffsets


class DeletionServices(GroupServices, ShareServices, Protocol):
    """For DeleteGroups: a share group goes with its states."""


class TopicServices(Protocol):
    """For the requests that create, delete and describe topics and partitions; ``topic_changes`` is None for a broker alone."""

    topics: Topics
    groups: GroupCoordinator
    settings: BrokerSettings
    turns: Turns
    node_id: int
    cluster: ClusterView
    topic_changes: TopicAdministration | None
    clients: Clients
    clock: Clock


class ClusterServices(TopicServices, LeaderServices, Protocol):
    """What Metadata, DescribeCluster, FindCoordinator, ApiVersions and UpdateFeatures use; ``entity_settings`` is None for a
    broker alone."""

    entity_settings: EntitySettings | None
    clients: Clients
    cluster_id: str
    features: Features

    def advertised(self) -> list[ApiVersion]:
        """The APIs and their versions, for ApiVersions."""


class ReplicaServices(TopicServices, ControlServices, Protocol):
    """What handlers of elections and reassignments use."""


class ConfigServices(Protocol):
    """For the requests that describe and alter settings; ``entity_settings`` is None for a broker alone. ``lacks_topic_ids``: a
    broker before Kafka 2.8 may be in the cluster."""

    lacks_topic_ids: bool
    entity_settings: EntitySettings | None
    topics: Topics
    settings: BrokerSettings
    kept_configs: KeptConfigs
    turns: Turns
    node_id: int

    def apply_kept_settings(self, altered: Collection[Resource]) -> Generator[None, None, None]:
        """Puts the settings of the altered resources in force, a topic or a group with each step. Raises SettingError."""


class LogDirServices(Protocol):
    """For the requests of log directories; ``data`` is None for a broker that keeps everything in memory."""

    topics: Topics
    data: Path | None
    turns: Turns


class ClientServices(Protocol):
    """For the requests of client quotas, SCRAM credentials, ACLs, delegation tokens and client telemetry. ``client_entities``,
    ``acl_nodes`` and ``token_nodes`` are None for a broker alone, which keeps all of them in files."""

    clients: Clients
    client_entities: ClientEntities | None
    acl_nodes: AclNodes | None
    token_nodes: TokenNodes | None
    clock: Clock
    turns: Turns


class SaslServices(Protocol):
    """For logins."""

    clients: Clients
    turns: Turns
    log_lines: LogLines

    @property
    def scheduler(self) -> Scheduler: ...


class Services(
    RecordServices,
    FetchServices,
    ShareFetchServices,
    GroupServices,
    TransactionServices,
    ShareServices,
    ClusterServices,
    ConfigServices,
    LogDirServices,
    ClientServices,
    SaslServices,
    Protocol,
):
    """What all handlers together use."""


Handler = Callable[[Services, Any, Call], Message | Pending | None]
