"""An instance of Kafka Streams with one thread, by the streams protocol (KIP-1071), as a reader: its tasks have no state, so
nothing is restored. Its requests are the real ones; coterie has no client for streams groups whose machine could be here."""

from __future__ import annotations

from collections.abc import Callable

from coterie.coordinator.consumer.state import JOIN_GROUP_EPOCH, LEAVE_GROUP_EPOCH
from coterie.coordinator.offsets.fetch import fetch_offsets
from coterie.coordinator.outcome import Context
from coterie.laboratory.brokers.consumer_broker_actor import ConsumerBrokerActor
from coterie.laboratory.deliveries import Ownership, Reader, TopicPartition
from coterie.laboratory.world import World
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.streams.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)

GROUP, SUBTOPOLOGY = "g", "0"
REBALANCE_TIMEOUT_MS = 300_000
_COMMIT_VERSION, _HEARTBEAT_VERSION = 9, 1
_LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class StreamsReader:
    """One topic's partitions are its tasks: subtopology 0 reads ``topic``. ``commit_interval_ms``: between two commits of all
    tasks; ``suspend_ms``: what a task takes to be suspended."""

    def __init__(
        self, world: World, broker: ConsumerBrokerActor, name: str, topic: str, ownership: Ownership, reader: Reader
    ) -> None:
        self.world, self.broker, self.name, self.topic = world, broker, name, topic
        self.ownership, self.reader = ownership, reader
        self.commit_interval_ms, self.suspend_ms = 5_000, 100
        self.owned: set[TopicPartition] = set()
        self.alive = False
        self.member_id = ""
        self.life = self._beats = 0
        self._clock_rate = 1 - world.clock_drift + 2 * world.clock_drift * world.random.random()
        self._still_until_ms = 0

    def start(self) -> None:
        """Starts the process: it joins with its topology."""
        self.reader.stop_all()
        self.alive = True
        self.life += 1
        self.member_id = self.world.fresh_id()
        self._own(set())
        self._after(self._by_clock(self.commit_interval_ms), self._commit_again)
        self._join()

    def crash(self) -> None:
        """The process ends."""
        self._read()
        self.alive = False
        self._own(set())

    def leave(self) -> None:
        """A clean close: what was read is committed, then the group is left."""
        self._read()
        self.reader.pause()
        self._commit(self.owned, self._close)

    def pause(self, ms: int) -> None:
        """The process is stalled, or its network is cut: it reads and sends nothing."""
        self._read()
        self._still_until_ms = self.world.now_ms + ms
        self._after(ms, self.reader.skip)

    def stall(self, ms: int) -> None:
        """Its code takes so long with what it has polled: the thread that reads is not the one of its heartbeats."""
        self._read()
        self.world.after(ms, self.reader.skip)

    # -- the group ------------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        self._epoch, self._target, self._is_reconciling = JOIN_GROUP_EPOCH, self.owned, False
        self._beat()

    def _beat(self) -> None:
        joins = self._epoch == JOIN_GROUP_EPOCH
        tasks = [TaskIds(SUBTOPOLOGY, sorted(p for _, p in self.owned))] if self.owned else []
        request = StreamsGroupHeartbeatRequest(GROUP, self.member_id, self._epoch, 0)
        request.active_tasks, request.standby_tasks, request.warmup_tasks = tasks, [], []
        if joins:
            request.topology = Topology(0, [Subtopology(SUBTOPOLOGY, [self.topic], [], [], [], [], [])])
            request.process_id, request.rebalance_timeout_ms = self.member_id, REBALANCE_TIMEOUT_MS
        self._beats += 1
        self._send(request, _HEARTBEAT_VERSION, self._beaten)

    def _beaten(self, response: Message) -> None:
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        if response.error_code in _LOST:
            self._lose()
            return
        assert not response.error_code, f"{self.name}: {response.error_message}"
        self._epoch = response.member_epoch
        if response.active_tasks is not None:
            self._target = {(self.topic, p) for tasks in response.active_tasks for p in tasks.partitions}
        beats = self._beats
        self._after(
            self._by_clock(response.heartbeat_interval_ms), lambda: self._beat() if beats == self._beats else None
        )
        self._reconcile()

    def _lose(self) -> None:
        """Fenced: the tasks are others', and it joins again."""
        self.reader.stop_all()
        self._own(set())
        self._join()

    def _reconcile(self) -> None:
        """Suspends and commits what it is no longer to have, then begins what is new; the next heartbeat is sent at once."""
        if self._is_reconciling or self._target == self.owned:
            return
        revoked = self.owned - self._target
        if not revoked:
            self._begin(self._target - self.owned)
            self._own(set(self._target))
            self._beat()
            return
        self._is_reconciling = True
        self._read()
        self._own(self.owned - revoked)
        self._commit(revoked, lambda: self._after(self.suspend_ms, self._suspended))
        for partition in revoked:
            self.reader.stop(partition)

    def _suspended(self) -> None:
        self._is_reconciling = False
        self._beat()
        self._reconcile()

    def _begin(self, added: set[TopicPartition]) -> None:
        """The committed offsets are known at once, as of the other readers."""
        wanted = {self.topic: sorted(p for _, p in added)}
        for topic, committed in fetch_offsets(self.broker.shard.group(GROUP), wanted.items()):
            for p in committed:
                self.reader.begin((topic, p.partition_index), max(p.committed_offset, 0))

    def _close(self) -> None:
        self._epoch = LEAVE_GROUP_EPOCH
        request = StreamsGroupHeartbeatRequest(GROUP, self.member_id, LEAVE_GROUP_EPOCH, 0)
        self._send(request, _HEARTBEAT_VERSION, lambda _: None)
        self.crash()

    def _own(self, partitions: set[TopicPartition]) -> None:
        self.ownership.changed(self.name, self.owned, partitions, self.world.now_ms)
        self.owned = partitions

    # -- offsets --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        if self.world.now_ms >= self._still_until_ms:
            self.reader.read()
        else:
            self.reader.skip()

    def _commit_again(self) -> None:
        self._read()
        self._commit(self.owned, lambda: None)
        self._after(self._by_clock(self.commit_interval_ms), self._commit_again)

    def _commit(self, partitions: set[TopicPartition], ended: Callable[[], None]) -> None:
        """``ended`` is called with the response, whatever it is; at once where there is nothing to commit."""
        positions = sorted((partition[1], self.reader.positions[partition]) for partition in partitions)
        if not positions:
            ended()
            return
        of_topic = [OffsetCommitRequestPartition(p, position) for p, position in positions]
        topics = [OffsetCommitRequestTopic(self.topic, partitions=of_topic)]
        request = OffsetCommitRequest(GROUP, self._epoch, self.member_id, topics=topics)
        self._send(request, _COMMIT_VERSION, lambda _: ended())

    # -- the process and its network ------------------------------------------------------------------------------------

    def _by_clock(self, ms: int) -> int:
        return int(ms / self._clock_rate)

    def _send(self, request: Message, version: int, received: Callable[[Message], None]) -> None:
        """A stalled process sends, and sees responses, once it runs again."""
        still_ms = max(self._still_until_ms - self.world.now_ms, 0)
        context = Context(0, None, self.world.fresh_id(), version, self.name, "/lab")

        def responded(response: Message) -> None:
            delay_ms = max(self.world.delay_ms(), self._still_until_ms - self.world.now_ms)
            self._after(delay_ms, lambda: received(response))

        def arrive() -> None:
            self.broker.submit(request, context, responded)  # type: ignore[arg-type]

        self.world.after(still_ms + self.world.delay_ms(), arrive)

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self.life

        def run() -> None:
            if self.alive and self.life == life:
                action()

        self.world.after(delay_ms, run)
