"""A whole consumer in the laboratory: the machines of member, commits and fetching, against the broker's own handlers. What its
group's protocol adds is in `group_consumers`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic

from coterie.consuming.commits.requests import CommitOffsets
from coterie.consuming.fetching.config import FetchConfig
from coterie.consuming.fetching.effects import LogTruncated, PartitionFailed, RefreshMetadata, SendFetch, SendValidation
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.position import UNKNOWN_EPOCH
from coterie.consuming.record import Record, TopicPartition
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.laboratory.consumer_group_checker import check_user
from coterie.laboratory.earliest_timer import EarliestTimer
from coterie.laboratory.group_member_actor import SYNC_COMMIT_MS, C, GroupMemberActor, M
from coterie.laboratory.node.broker import LaboratoryBroker
from coterie.laboratory.node.connection import REQUEST_TIMEOUT_MS, LaboratoryConnection
from coterie.laboratory.node.coordinator_view import CoordinatorView
from coterie.laboratory.node.delivery_checker import DeliveryChecker
from coterie.laboratory.node.starting_offsets import StartingOffsets
from coterie.laboratory.ownership import Ownership
from coterie.laboratory.world import World
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire import topic_names
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.wire.messages.logs.fetch import FetchRequest, FetchResponse
from coterie.wire.messages.logs.list_offsets import ListOffsetsRequest
from coterie.wire.messages.logs.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse

# Beyond these versions topics go by their ids.
LAST_VERSIONS = {
    OffsetCommitRequest.api_key: topic_names.OFFSET_COMMIT,
    OffsetFetchRequest.api_key: topic_names.OFFSET_FETCH,
}
AT_THE_LEADER = frozenset(
    request.api_key for request in (FetchRequest, ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest)
)
POLLED_AT_MOST = 50


@dataclass(frozen=True, slots=True)
class ConsumerParts(Generic[C]):
    """What a whole consumer is made of. ``config``: of a member of one group protocol; ``topics`` to subscribe to."""

    world: World
    broker: LaboratoryBroker
    name: str
    config: C
    topics: frozenset[str]
    ownership: Ownership
    delivery: DeliveryChecker
    fetch: FetchConfig


class ConsumerActor(GroupMemberActor[C, M]):
    """Polls what it owns, from the committed offsets on, or from the log's start where there are none; one connection to the
    coordinator and one to the leader."""

    may_end_by: ClassVar[frozenset[ErrorCode]]

    def _set_up(self, view: CoordinatorView, parts: ConsumerParts[C]) -> None:
        self._view, self._node_broker = view, parts.broker
        self._delivery, self._fetch_config = parts.delivery, parts.fetch
        self._polled_at_most = POLLED_AT_MOST
        self._fetch_timer = EarliestTimer(self.world, self._fetch)

    def start(self) -> None:
        self._connections: dict[bool, LaboratoryConnection] = {}
        self._known = ClusterMetadata()
        self.fetching = Fetching(self._fetch_config, self._known)
        self._starts = StartingOffsets(self, self._known, self._fetch_config.committed_only)
        self._noted: dict[TopicPartition, int] = {}  # the position up to which the checker knows what was delivered
        self._to_commit: dict[tuple[str, int], int] = {}  # of what is being given up, while nothing fails
        self._fetch_timer.forget()
        self._delivery.began(self.name)
        super().start()

    @property
    def positions(self) -> CommitOffsets:
        """The next offsets with the leader epochs before them, as the client commits them."""
        offsets = self.commits.offsets
        return {tp: (offset, offsets.epochs[tp], "") for tp, offset in offsets.positions.items()}

    # -- polling --------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """A poll: positions that are missing, a commit that is due, then records."""
        self.commits.look_up_positions()
        self._find_positions()
        polled = self.fetching.take(self.world.between(1, self._polled_at_most))
        self._note_positions(polled)
        assert self.fetching.damage_due() is None, f"{self.name} cannot read {self.fetching.damage_due()}"
        self.commits.poll()
        if self.owned and self.world.chance(0.2):
            self.commits.commit_async(self.commits.consumed())
        elif self.owned and self.world.chance(0.05):
            self.commits.commit_sync(SYNC_COMMIT_MS)

    def _find_positions(self) -> None:
        """A partition begins at its committed offset, once that is looked up; without one, or where the log does not have it,
        at the log's start."""
        offsets = self.commits.offsets
        without = self.fetching.resets_due()
        for tp in self.fetching.initializing():
            if offsets.committed.get(tp, -1) >= 0:
                self.seek(tp, offsets.positions[tp], offsets.epochs[tp])
            elif tp in offsets.committed:
                without.append(tp)
        self._starts.look_up(without)

    def _note_positions(self, polled: Mapping[TopicPartition, list[Record]]) -> None:
        """What is committed are the positions: behind what was polled, and behind batches without records for a consumer."""
        strays = polled.keys() - self.owned
        assert not strays, f"{self.name} polls {sorted(strays)}, which it does not own"
        positions, epochs = self.commits.offsets.positions, self.commits.offsets.epochs
        for tp, position in self.fetching.positions.items():
            if tp not in positions or position.offset < 0:
                continue
            positions[tp], epochs[tp] = position.offset, position.offset_epoch
            before, self._noted[tp] = self._noted[tp], position.offset
            if position.offset != before:
                values = [(record.offset, record.value or b"") for record in polled.get(tp, [])]
                self._delivery.delivered(self.name, tp, before, position.offset, values)

    def seek(self, tp: TopicPartition, offset: int, epoch: int = UNKNOWN_EPOCH) -> None:
        """Reads from there on, once a position with the epoch of an earlier leader is validated (KIP-320)."""
        self._delivery.sought(self.name, tp, offset)
        self.fetching.seek(tp, offset, epoch)
        self._noted[tp] = offset

    # -- fetching -------------------------------------------------------------------------------------------------------

    @property
    def reads(self) -> set[tuple[str, int]]:
        """The partitions of which a poll may return records."""
        return {tuple(tp) for tp in self.fetching.positions}  # type: ignore[misc]

    def check_readers(self) -> None:
        """Of a group of the consumer protocol no member reads what the coordinator may give to others."""
        group = self._view.loaded_groups().get(self.config.group_id)
        if isinstance(group, ConsumerGroup):
            for each in self.ownership.actors:
                if isinstance(each, ConsumerActor) and each.alive:
                    machine, used = each.machine, self._view.by_id(each.reads)
                    check_user(group, each.name, machine.member_id, machine.generation, used)

    def _take(self, partitions: tuple[tuple[str, int], ...], added: tuple[tuple[str, int], ...]) -> None:
        super()._take(partitions, added)
        self.fetching.drop([TopicPartition(*tp) for tp in added])
        self.fetching.assign([TopicPartition(*tp) for tp in partitions])

    def _give_up(self, partitions: tuple[tuple[str, int], ...], lost: bool) -> None:
        self._note_positions({})
        self.fetching.drop([TopicPartition(*tp) for tp in partitions])
        if not lost and self.commits.is_automatic:
            positions = self.commits.offsets.positions
            self._to_commit |= {tp: positions[tp] for tp in partitions if tp in positions}
        super()._give_up(partitions, lost)

    def _revoked(self) -> None:
        """Given up in order, with nothing failing meanwhile: what was delivered is committed, so that nobody gets it again."""
        expected = {tp: self._to_commit.pop(tp) for tp in self._revocations[0] if tp in self._to_commit}
        if not self.machine.lost and self.machine.generation >= 0:
            for tp, offset in expected.items():
                committed = self._delivery.acknowledged_offset(tp)
                assert committed >= offset, f"{self.name} gives {tp} up at {offset}, of which {committed} is committed"
        super()._revoked()
        self.commits.drop_lookup()

    def pump(self) -> None:
        super().pump()
        if self.alive:
            self._fetch()

    def _fetch(self) -> None:
        if not self.alive:
            return
        for effect in self.fetching.next(self.clock_ms()):
            match effect:
                case SendFetch():
                    self._send_fetch(effect)
                case SendValidation():
                    self._validate(effect)
                case RefreshMetadata():
                    self._refresh_leaders(effect)
                case PartitionFailed(partition, code):
                    raise AssertionError(f"{self.name} cannot fetch {partition}: {code.name}")
                case LogTruncated(partition, offset):
                    raise AssertionError(f"{self.name} learns that {partition} was cut before {offset}, where it reads")
        self._starts.pump()
        self._arm_fetching()

    def _arm_fetching(self) -> None:
        for deadline_ms in (self.fetching.next_deadline_ms(), self._starts.next_deadline_ms()):
            if deadline_ms is not None:
                self._fetch_timer.set(max(self._world_ms(deadline_ms), self.world.now_ms + 1))

    def _send_fetch(self, sent: SendFetch) -> None:
        def received(response: Message) -> None:
            assert isinstance(response, FetchResponse)
            self.fetching.answered(sent, response, self.clock_ms(), self.jitter())

        def failed() -> None:
            self.fetching.failed(sent, ErrorCode.NETWORK_EXCEPTION, self.clock_ms(), self.jitter())

        self._request(sent.request, None if sent.by_id else topic_names.FETCH, received, failed)

    def _validate(self, sent: SendValidation) -> None:
        """Whether the log still has the positions (KIP-320), after the broker came back in a new leader epoch."""

        def received(response: Message) -> None:
            assert isinstance(response, OffsetForLeaderEpochResponse)
            self.fetching.validated(sent, response, self.clock_ms(), self.jitter())

        def failed() -> None:
            self.fetching.validation_failed(sent, ErrorCode.NETWORK_EXCEPTION, self.clock_ms(), self.jitter())

        self.send(sent.request, received, failed)

    def _refresh_leaders(self, effect: RefreshMetadata) -> None:
        self.refresh(effect.topics, lambda: self.fetching.metadata_refreshed(effect, self.clock_ms(), self.jitter()))

    def refresh(self, topics: Iterable[str], ended: Callable[[], None]) -> None:
        """Asks for the topics' metadata; ``ended`` is called in any case."""

        def received(response: Message) -> None:
            assert isinstance(response, MetadataResponse)
            self._known.metadata_received(response, self.clock_ms())
            ended()

        self.send(self._known.metadata_request(sorted(topics)), received, ended)

    def jitter(self) -> float:
        """The randomness of a pause."""
        return self.world.random.uniform(-1, 1)

    # -- the network ----------------------------------------------------------------------------------------------------

    def find_coordinator(self, ended: Callable[[bool], None]) -> None:
        def looked_up(is_there: bool) -> None:
            if not is_there:
                self._to_commit.clear()
            ended(is_there)

        super().find_coordinator(looked_up)

    def send(self, request: Message, received: Callable[[Message], None], failed: Callable[[], None]) -> None:
        """On the connection for that API: once, one of the two is called, unless the process ends before."""
        if isinstance(request, OffsetCommitRequest):
            received, failed = self._noted_commit(request, received, failed)
        elif isinstance(request, OffsetFetchRequest):
            received = self._noted_lookup(request, received)
        self._request(request, LAST_VERSIONS.get(request.api_key), received, failed)

    def ask(
        self, node_id: int, request: Message, received: Callable[[Message], None], failed: Callable[[], None]
    ) -> None:
        """See `StartingActor`: there is one broker."""
        self.send(request, received, failed)

    def _request(
        self, request: Message, last: int | None, received: Callable[[Message], None], failed: Callable[[], None]
    ) -> None:
        """As `send`, in version ``last`` or, where it is None, in the newest."""
        world, life, key = self.world, self.life, request.api_key

        def ended(response: Message | None) -> None:
            if not self.lives(life):
                return
            if response is None or self.cut_off():
                self._to_commit.clear()
                failed()
            else:
                received(response)
            self.pump()

        if self.cut_off() or not self._node_broker.up:
            world.after(world.faults.notice_ms, lambda: ended(None))
            return
        at_leader = key in AT_THE_LEADER
        connection = self._connections.get(at_leader)
        if connection is None or connection.broken:
            connection = LaboratoryConnection(world, self._node_broker, self.name)
            self._connections[at_leader] = connection
        newest = APIS[key].advertised.last
        timeout_ms = REQUEST_TIMEOUT_MS
        if isinstance(request, JoinGroupRequest):
            timeout_ms += request.rebalance_timeout_ms
        connection.send(request, newest if last is None else min(newest, last), ended, timeout_ms)

    def _noted_commit(
        self, request: OffsetCommitRequest, received: Callable[[Message], None], failed: Callable[[], None]
    ) -> tuple[Callable[[Message], None], Callable[[], None]]:
        offsets = {(t.name, p.partition_index): p.committed_offset for t in request.topics for p in t.partitions}
        before = {partition: self._delivery.acknowledged_offset(partition) for partition in offsets}

        def answered(response: Message) -> None:
            assert isinstance(response, OffsetCommitResponse)
            for topic in response.topics:
                for partition in topic.partitions:
                    where = (topic.name, partition.partition_index)
                    if partition.error_code:
                        self._to_commit.clear()
                    else:
                        self._delivery.commit_acknowledged(self.name, where, offsets[where], before[where])
            received(response)

        def lost() -> None:
            self._delivery.commit_lost(offsets)
            failed()

        return answered, lost

    def _noted_lookup(
        self, request: OffsetFetchRequest, received: Callable[[Message], None]
    ) -> Callable[[Message], None]:
        topics = [topic for group in request.groups for topic in group.topics or ()]
        requested = [(topic.name, index) for topic in topics for index in topic.partition_indexes]
        before = {partition: self._delivery.acknowledged_offset(partition) for partition in requested}

        def answered(response: Message) -> None:
            assert isinstance(response, OffsetFetchResponse)
            for topic in [topic for group in response.groups if not group.error_code for topic in group.topics]:
                for partition in topic.partitions:
                    where = (topic.name, partition.partition_index)
                    if not partition.error_code:
                        self._delivery.looked_up(self.name, where, partition.committed_offset, before[where])
            received(response)

        return answered

    def fetch_eagerly(self) -> None:
        """From now on with the limits that a consumer has by default."""
        self._fetch_config = FetchConfig(committed_only=self._fetch_config.committed_only, validates=True)
        self._polled_at_most = 10 * POLLED_AT_MOST
        if self.alive:
            self.fetching.config = self._fetch_config
