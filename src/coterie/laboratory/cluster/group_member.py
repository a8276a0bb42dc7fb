"""Members of groups in the laboratory's cluster: the real machines of member and commits, whose coordinator moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from coterie.broker.storage.topic import OFFSETS_TOPIC
from coterie.coordinator.consumer.topics.image import TopicsImage
from coterie.coordinator.partitioning import partition_for
from coterie.coordinator.state import Group
from coterie.laboratory.broker_actor import Durability
from coterie.laboratory.cluster.group_broker import OFFSETS_PARTITIONS, READ_PARTITIONS, READ_TOPIC, GroupBroker
from coterie.laboratory.cluster.group_checker import ClusterGroupChecker
from coterie.laboratory.cluster.process import Network, Process
from coterie.laboratory.consumer_member_actor import ConsumerMemberActor, ConsumerMemberBroker
from coterie.laboratory.group_member_actor import C, GroupMemberActor, M
from coterie.laboratory.member_actor import MemberActor
from coterie.laboratory.member_broker import MemberBroker
from coterie.laboratory.node.connection import REQUEST_TIMEOUT_MS, LaboratoryConnection
from coterie.laboratory.node.consumer import LAST_VERSIONS
from coterie.laboratory.ownership import Ownership
from coterie.member.config import MemberConfig
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.machine import MemberMachine
from coterie.replication.states import NO_LEADER
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse

LOOK_MS = 1_000  # how often a connection with open requests is looked at


class ReachedBroker:
    """A broker as a client's connections reach it: not while there is a cut between the two."""

    def __init__(self, network: Network, client: str, is_cut_off: Callable[[], bool], broker: GroupBroker) -> None:
        self._network, self._client, self._is_cut_off, self._broker = network, client, is_cut_off, broker

    @property
    def up(self) -> bool:
        return (
            self._broker.alive and not self._is_cut_off() and not self._network.is_cut(self._client, self._broker.name)
        )

    @property
    def incarnation(self) -> int:
        return self._broker.life

    def handle(
        self, request: Message, version: int, client_id: str, answered: Callable[[Message | None], None], /
    ) -> None:
        """See `ConnectedBroker`."""
        self._broker.handle(request, version, client_id, answered)


class WatchedConnection(LaboratoryConnection):
    """Breaks soon after the broker has ended, or can be reached no more, while requests wait in it."""

    _is_watching = False

    def send(
        self,
        request: Message,
        version: int,
        answered: Callable[[Message | None], None],
        timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        """See `LaboratoryConnection`."""
        super().send(request, version, answered, timeout_ms)
        if not self._is_watching:
            self._is_watching = True
            self._world.after(LOOK_MS, self._look)

    def _look(self) -> None:
        self._is_watching = bool(self._sent) and not self.broken
        if not self._is_watching:
            return
        if self._broker.up and self._broker.incarnation == self._incarnation:
            self._world.after(LOOK_MS, self._look)
        else:
            self.close()


class CoordinatorOf:
    """What a `MemberActor` uses of the broker that it takes for its coordinator; None before it has found one."""

    durability = Durability.POWER

    def __init__(self) -> None:
        self.partitions = {READ_TOPIC: READ_PARTITIONS}
        self.broker: GroupBroker | None = None
        self.reached: ReachedBroker | None = None

    @property
    def up(self) -> bool:
        return self.reached is not None and self.reached.up

    @property
    def shard(self) -> CoordinatorOf:
        return self

    @property
    def topics(self) -> TopicsImage:
        return TopicsImage() if self.broker is None else self.broker.groups.topics_view.image()

    @property
    def groups(self) -> Mapping[str, Group]:
        """Those of the classic protocol in its loaded partitions."""
        loaded = [] if self.broker is None else self.broker.groups.loaded_groups()
        return {group.group_id: group for group in loaded if isinstance(group, Group)}


class CoordinatedActor(GroupMemberActor[C, M]):
    """A member of either protocol, over a network to several brokers. Its commits carry generation, or member epoch, and member
    id as their metadata, by which the checker knows them in the log."""

    _coordinator: CoordinatorOf

    def join_network(self, network: Network, brokers: Mapping[int, GroupBroker], checker: ClusterGroupChecker) -> None:
        """To be called before the first start."""
        self._process, self._brokers, self._group_checker = Process(network, self.name), brokers, checker
        self._index = partition_for(self.config.group_id, OFFSETS_PARTITIONS)

    def start(self) -> None:
        self._process.started()
        self._connection: LaboratoryConnection | None = None
        super().start()

    def crash(self) -> None:
        self._process.alive = False
        super().crash()

    # -- the coordinator ------------------------------------------------------------------------------------------------

    def find_coordinator(self, ended: Callable[[bool], None]) -> None:
        """Looks the coordinator up in the metadata of any broker."""
        target = self._brokers[self.world.random.choice(sorted(self._brokers))]

        def came(state: Any) -> None:
            is_there = state is not None and state.leader > NO_LEADER
            if is_there:
                self._use(self._brokers[state.leader])
            ended(is_there)
            self.pump()

        partition = OFFSETS_TOPIC, self._index
        if self.cut_off():
            self._after(self.world.faults.notice_ms, partial(ended, False))
        else:
            self._process.call(target, lambda answer: answer(target.metadata.get(partition)), came, lambda: came(None))

    def _use(self, broker: GroupBroker) -> None:
        connection, known = self._connection, self._coordinator
        if connection is None or connection.broken or known.broker is not broker:
            known.broker = broker
            known.reached = ReachedBroker(self._process.network, self.name, self.cut_off, broker)
            self._connection = WatchedConnection(self.world, known.reached, self.name)

    def send(self, request: Message, received: Callable[[Message], None], failed: Callable[[], None]) -> None:
        """On the connection to the coordinator: once, one of the two is called, unless the process ends before."""
        life, connection = self.life, self._connection

        def ended(response: Message | None) -> None:
            if not self.lives(life):
                return
            if response is None:
                failed()
            else:
                self._note(request, response)
                received(response)
            self.pump()

        if connection is None or connection.broken or self.cut_off():
            self.world.after(self.world.faults.notice_ms, lambda: ended(None))
            return
        if isinstance(request, OffsetCommitRequest):
            for topic in request.topics:
                for row in topic.partitions:
                    row.committed_metadata = f"{request.generation_id_or_member_epoch} {request.member_id}"
        timeout_ms = REQUEST_TIMEOUT_MS
        if isinstance(request, JoinGroupRequest):
            timeout_ms += request.rebalance_timeout_ms
        last = APIS[request.api_key].advertised.last
        connection.send(request, min(last, LAST_VERSIONS.get(request.api_key, last)), ended, timeout_ms)

    def _note(self, request: Message, response: Message) -> None:
        match request, response:
            case SyncGroupRequest(), SyncGroupResponse(error_code=0):
                self._group_checker.assigned(request, response)
            case ConsumerGroupHeartbeatRequest(), ConsumerGroupHeartbeatResponse(error_code=0):
                self._group_checker.consumers.assigned(request, response)
            case OffsetCommitRequest(), OffsetCommitResponse():
                self._group_checker.committed(request, response)


class CoordinatedMember(CoordinatedActor[MemberConfig, MemberMachine], MemberActor):
    """A member of the classic protocol."""

    def __init__(
        self,
        network: Network,
        brokers: Mapping[int, GroupBroker],
        name: str,
        config: MemberConfig,
        ownership: Ownership,
        checker: ClusterGroupChecker,
    ) -> None:
        self._coordinator = CoordinatorOf()
        broker = cast(MemberBroker, self._coordinator)
        super().__init__(network.world, broker, name, config, frozenset({READ_TOPIC}), ownership)
        self.join_network(network, brokers, checker)

    def _check_free(self, added: tuple[tuple[str, int], ...]) -> None:
        """By the checker, from the responses: two brokers may take themselves for the coordinator."""


class CoordinatedConsumer(CoordinatedActor[ConsumerMemberConfig, ConsumerMemberMachine], ConsumerMemberActor):
    """A member of the consumer protocol."""

    def __init__(
        self,
        network: Network,
        brokers: Mapping[int, GroupBroker],
        name: str,
        config: ConsumerMemberConfig,
        ownership: Ownership,
        checker: ClusterGroupChecker,
    ) -> None:
        self._coordinator = CoordinatorOf()
        broker = cast(ConsumerMemberBroker, self._coordinator)
        super().__init__(network.world, broker, name, config, frozenset({READ_TOPIC}), ownership)
        self.join_network(network, brokers, checker)


AnyCoordinated = CoordinatedMember | CoordinatedConsumer
