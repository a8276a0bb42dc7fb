"""A whole consumer in the laboratory: the machines of member, commits and fetching, against the broker's own handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from coterie.cluster_metadata import ClusterMetadata
from coterie.consuming.fetch_config import FetchConfig
from coterie.consuming.fetch_effects import PartitionFailed, RefreshMetadata, SendFetch
from coterie.consuming.fetching import Fetching
from coterie.consuming.record import Record, TopicPartition
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.state import Group
from coterie.laboratory.broker_actor import BrokerActor, Durability
from coterie.laboratory.earliest_timer import EarliestTimer
from coterie.laboratory.member_actor import SYNC_COMMIT_MS, MemberActor
from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.node.connection import REQUEST_TIMEOUT_MS, LaboratoryConnection
from coterie.laboratory.node.delivery_checker import DeliveryChecker
from coterie.laboratory.ownership import Ownership
from coterie.laboratory.world import World
from coterie.member.config import MemberConfig
from coterie.wire import topic_names
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.fetch import FetchRequest, FetchResponse
from coterie.wire.messages.join_group import JoinGroupRequest
from coterie.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from coterie.wire.messages.metadata import MetadataRequest, MetadataResponse
from coterie.wire.messages.offset_commit import OffsetCommitRequest
from coterie.wire.messages.offset_fetch import OffsetFetchRequest

EARLIEST = -2
# Beyond these versions topics go by their ids.
LAST_VERSIONS = {
    FetchRequest.api_key: topic_names.FETCH,
    OffsetCommitRequest.api_key: topic_names.OFFSET_COMMIT,
    OffsetFetchRequest.api_key: topic_names.OFFSET_FETCH,
}
AT_THE_LEADER = frozenset({FetchRequest.api_key, ListOffsetsRequest.api_key, MetadataRequest.api_key})
POLLED_AT_MOST = 50


class CoordinatorView:
    """What a `MemberActor` uses of a broker, of the laboratory's with the real handlers."""

    def __init__(self, broker: LaboratoryBroker) -> None:
        self._broker = broker

    @property
    def up(self) -> bool:
        return self._broker.up

    @property
    def incarnation(self) -> int:
        return self._broker.incarnation

    @property
    def durability(self) -> Durability:
        return self._broker.durability

    @property
    def partitions(self) -> dict[str, int]:
        return {name: count for name, count in self._broker.node.topics.partition_counts().items() if name[0] != "_"}

    @property
    def shard(self) -> CoordinatorView:
        return self

    @property
    def groups(self) -> dict[str, Group]:
        """Of the classic protocol, in the partitions that are loaded; none of a process that has ended. To see them writes what
        was decided, of which the process may end."""
        broker = self._broker
        loaded: list[AnyGroup] = []
        broker.scheduler.run(lambda: loaded.extend(broker.node.groups.loaded_groups()))
        return {group.group_id: group for group in loaded if isinstance(group, Group)}

    def group(self, group_id: str) -> Group | None:
        return self.groups.get(group_id)


class ConsumerActor(MemberActor):
    """Polls what it owns, from the committed offsets on, or from the log's start where there are none; one connection to the
    coordinator and one to the leader."""

    def __init__(
        self,
        world: World,
        broker: LaboratoryBroker,
        name: str,
        config: MemberConfig,
        topics: frozenset[str],
        ownership: Ownership,
        checker: DeliveryChecker,
        fetch: FetchConfig,
    ) -> None:
        super().__init__(world, cast(BrokerActor, CoordinatorView(broker)), name, config, topics, ownership)
        self._node_broker, self._delivery, self._fetch_config = broker, checker, fetch
        self._polled_at_most = POLLED_AT_MOST
        self._fetch_timer = EarliestTimer(world, self._fetch)

    def start(self) -> None:
        self._connections: dict[bool, LaboratoryConnection] = {}
        self._known = ClusterMetadata()
        self.fetching = Fetching(self._fetch_config, self._known)
        self._resetting: set[TopicPartition] = set()
        self._noted: dict[TopicPartition, int] = {}  # the position up to which the checker knows what was delivered
        self._fetch_timer.forget()
        self._delivery.began(self.name)
        super().start()

    # -- polling --------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """A poll: positions that are missing, a commit that is due, then records."""
        self.commits.look_up_positions()
        self._seek_to_positions()
        polled = self.fetching.take(self.world.between(1, self._polled_at_most))
        self._note_positions(polled)
        assert self.fetching.damage_due() is None, f"{self.name} cannot read {self.fetching.damage_due()}"
        self._reset_positions()
        self.commits.poll()
        if self.owned and self.world.chance(0.2):
            self.commits.commit_async(self.commits.consumed())
        elif self.owned and self.world.chance(0.05):
            self.commits.commit_sync(SYNC_COMMIT_MS)

    def _seek_to_positions(self) -> None:
        """A partition begins at its committed offset, once that is looked up."""
        positions = self.commits.offsets.positions
        for tp in self.fetching.initializing():
            if tp in positions:
                self._seek(tp, positions[tp])

    def _note_positions(self, polled: Mapping[TopicPartition, list[Record]]) -> None:
        """What is committed are the positions: behind what was polled, and behind batches without records for a consumer."""
        positions = self.commits.offsets.positions
        for tp, position in self.fetching.positions.items():
            if tp not in positions or position.offset < 0:
                continue
            positions[tp] = position.offset
            before, self._noted[tp] = self._noted[tp], position.offset
            if position.offset != before:
                values = [(record.offset, record.value or b"") for record in polled.get(tp, [])]
                self._delivery.delivered(self.name, tp, before, position.offset, values)

    def _seek(self, tp: TopicPartition, offset: int) -> None:
        self._delivery.sought(self.name, tp)
        self.fetching.seek(tp, offset)
        self._noted[tp] = offset

    def _reset_positions(self) -> None:
        """auto.offset.reset=earliest."""
        for tp in self.fetching.resets_due():
            if tp not in self._resetting:
                self._resetting.add(tp)
                request = ListOffsetsTopic(tp.topic, [ListOffsetsPartition(tp.partition, timestamp=EARLIEST)])
                self.send(
                    ListOffsetsRequest(topics=[request]),
                    lambda response, tp=tp: self._reset(tp, response),  # type: ignore[misc]
                    lambda tp=tp: self._resetting.discard(tp),  # type: ignore[misc]
                )

    def _reset(self, tp: TopicPartition, response: Message) -> None:
        assert isinstance(response, ListOffsetsResponse)
        self._resetting.discard(tp)
        result = response.topics[0].partitions[0]
        if not result.error_code and tp in self.fetching.resets_due():
            self._seek(tp, result.offset)

    # -- fetching -------------------------------------------------------------------------------------------------------

    def _take(self, partitions: tuple[tuple[str, int], ...], added: tuple[tuple[str, int], ...]) -> None:
        super()._take(partitions, added)
        self.fetching.drop([TopicPartition(*tp) for tp in added])
        self.fetching.assign([TopicPartition(*tp) for tp in partitions])

    def _give_up(self, partitions: tuple[tuple[str, int], ...], lost: bool) -> None:
        self._note_positions({})
        self.fetching.drop([TopicPartition(*tp) for tp in partitions])
        super()._give_up(partitions, lost)

    def _pump(self) -> None:
        super()._pump()
        if self.alive:
            self._fetch()

    def _fetch(self) -> None:
        if not self.alive:
            return
        for effect in self.fetching.next(self.clock_ms()):
            match effect:
                case SendFetch():
                    self._send_fetch(effect)
                case RefreshMetadata():
                    self._refresh(effect)
                case PartitionFailed(partition, code):
                    raise AssertionError(f"{self.name} cannot fetch {partition}: {code.name}")
        self._arm_fetching()

    def _arm_fetching(self) -> None:
        deadline_ms = self.fetching.next_deadline_ms()
        if deadline_ms is not None:
            self._fetch_timer.set(max(self._world_ms(deadline_ms), self.world.now_ms + 1))

    def _send_fetch(self, sent: SendFetch) -> None:
        def received(response: Message) -> None:
            assert isinstance(response, FetchResponse)
            self.fetching.answered(sent, response, self.clock_ms(), self._jitter())

        def failed() -> None:
            self.fetching.failed(sent, ErrorCode.NETWORK_EXCEPTION, self.clock_ms(), self._jitter())

        self.send(sent.request, received, failed)

    def _refresh(self, refresh: RefreshMetadata) -> None:
        def received(response: Message) -> None:
            assert isinstance(response, MetadataResponse)
            self._known.metadata_received(response, self.clock_ms())
            ended()

        def ended() -> None:
            self.fetching.metadata_refreshed(refresh, self.clock_ms(), self._jitter())

        self.send(self._known.metadata_request(sorted(refresh.topics)), received, ended)

    def _jitter(self) -> float:
        return self.world.random.uniform(-1, 1)

    # -- the network ----------------------------------------------------------------------------------------------------

    def send(self, request: Message, received: Callable[[Message], None], failed: Callable[[], None]) -> None:
        """On the connection for that API: once, one of the two is called, unless the process ends before."""
        world, life, key = self.world, self._life, request.api_key

        def ended(response: Message | None) -> None:
            if not self.alive or self._life != life:
                return
            if response is None or self.cut_off():
                failed()
            else:
                received(response)
            self._pump()

        if self.cut_off() or not self._node_broker.up:
            world.after(world.faults.notice_ms, lambda: ended(None))
            return
        at_leader = key in AT_THE_LEADER
        connection = self._connections.get(at_leader)
        if connection is None or connection.broken:
            connection = LaboratoryConnection(world, self._node_broker, self.name)
            self._connections[at_leader] = connection
        last = APIS[key].advertised.last
        timeout_ms = REQUEST_TIMEOUT_MS
        if isinstance(request, JoinGroupRequest):
            timeout_ms += request.rebalance_timeout_ms
        connection.send(request, min(last, LAST_VERSIONS.get(key, last)), ended, timeout_ms)

    def fetch_eagerly(self) -> None:
        """From now on with the limits that a consumer has by default."""
        self._fetch_config = FetchConfig(committed_only=self._fetch_config.committed_only)
        self._polled_at_most = 10 * POLLED_AT_MOST
        if self.alive:
            self.fetching.config = self._fetch_config
