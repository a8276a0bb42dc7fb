"""A simulated member of the consumer protocol (KIP-848): it heartbeats, revokes after a time of its own, applies what it is
assigned, commits with its epoch, and is cut off, stalled and killed like the members of the classic protocol."""

from __future__ import annotations

from collections.abc import Callable

from coterie.coordinator.consumer.state import (
    JOIN_GROUP_EPOCH,
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    TopicIdPartition,
)
from coterie.coordinator.consumer.stored import partitions_by_topic
from coterie.coordinator.outcome import Context
from coterie.laboratory.consumer_broker_actor import ConsumerBrokerActor
from coterie.laboratory.world import World
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

GROUP = "g"
COMMIT_VERSION = 9
# A member that gets one of these gives all partitions up and joins again under epoch 0.
FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
RETRY_MS = 300


class ConsumerMemberActor:
    """A process. ``uses`` are the partitions that it reads; ``assigned`` those of the last response, which it takes once it
    has revoked the others."""

    def __init__(
        self,
        world: World,
        broker: ConsumerBrokerActor,
        name: str,
        topics: frozenset[str],
        instance_id: str | None = None,
    ) -> None:
        self.world, self.broker, self.name, self.topics, self.instance_id = world, broker, name, topics, instance_id
        self.rebalance_timeout_ms = 60_000
        self.revocation_ms = 0  # what the user's code takes to give partitions up
        self.assignor: str | None = None
        self.alive = False
        self.stalled_until_ms = self.cut_off_until_ms = 0
        self.member_id, self.epoch = "", JOIN_GROUP_EPOCH
        self.uses: set[TopicIdPartition] = set()
        self.assigned: frozenset[TopicIdPartition] | None = None
        self.accepted = self.fenced = 0
        self._reported: frozenset[TopicIdPartition] | None = None
        self._resend = True  # everything, since the last request or response was lost
        self._is_waiting = self._is_revoking = False
        self._life = 0

    def start(self) -> None:
        """A new process has a new member id."""
        self.alive = True
        self._life += 1
        self.member_id = f"{self.name}-{self.world.fresh_id()[:6]}"
        self._rejoin()
        self._is_waiting = self._is_revoking = False
        self._loop(self.world.between(0, 200))

    def crash(self) -> None:
        self.alive = False
        self.uses, self.assigned = set(), None

    def leave(self) -> None:
        """A clean close: a static member may come back (-2)."""
        static = self.instance_id is not None and self.world.chance(0.7)
        self._send(self._request(LEAVE_GROUP_STATIC_EPOCH if static else LEAVE_GROUP_EPOCH), lambda response: None)
        self.crash()

    def subscribe(self, topics: frozenset[str]) -> None:
        self.topics, self._resend = topics, True

    def has_everything(self) -> bool:
        """Whether nothing is left to revoke or to take."""
        return self.assigned is not None and self.uses == self.assigned and not self._is_revoking

    # -- the process ---------------------------------------------------------------------------------------------------

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self._life

        def run() -> None:
            if self.alive and self._life == life:
                action()

        self.world.after(delay_ms, run)

    def _loop(self, delay_ms: int) -> None:
        def again() -> None:
            if self.world.now_ms >= self.stalled_until_ms:
                if not self._is_waiting:
                    self._heartbeat()
                if self.uses and self.world.chance(0.4):
                    self._commit()
            self._loop(self.world.between(700, 2_000))

        self._after(delay_ms, again)

    def _rejoin(self) -> None:
        self.epoch, self.uses, self.assigned = JOIN_GROUP_EPOCH, set(), None
        self._reported, self._resend = None, True

    def _owned(self) -> frozenset[TopicIdPartition]:
        """What it uses and what it is about to use."""
        return frozenset(self.uses | (self.assigned or frozenset()))

    def _heartbeat(self) -> None:
        owned, joins = self._owned(), self.epoch == JOIN_GROUP_EPOCH
        request = self._request(self.epoch)
        if joins or self._resend:
            request.rebalance_timeout_ms = self.rebalance_timeout_ms
            request.subscribed_topic_names = sorted(self.topics)
            request.server_assignor = self.assignor
        if joins or self._resend or owned != self._reported:
            request.topic_partitions = [TopicPartitions(t, p) for t, p in partitions_by_topic(owned)]
            self._reported = owned
        self._resend = False
        self._is_waiting = True
        self._send(request, self._answered)

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(GROUP, self.member_id, epoch, self.instance_id)

    def _answered(self, response: Message | None) -> None:
        self._is_waiting = False
        if response is None:
            self._resend = True
            return
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        code = error_of(response.error_code)
        if code in FENCED:
            self.fenced += 1
            self._rejoin()
        elif code == ErrorCode.FENCED_INSTANCE_ID:
            self.crash()  # another process has its instance id
        elif code:
            self._resend = True
        else:
            assert response.member_epoch >= self.epoch, f"{self.name}: epoch {response.member_epoch} after {self.epoch}"
            self.epoch = response.member_epoch
            if response.assignment is not None:
                topics = response.assignment.topic_partitions
                self.assigned = frozenset((t.topic_id, p) for t in topics for p in t.partitions)
                self._reconcile()

    def _reconcile(self) -> None:
        """Revokes first, which takes its time, then takes the rest, and says so at once."""
        if self._is_revoking or self.assigned is None:
            return
        if self.uses <= self.assigned:
            self.uses = set(self.assigned)
            return
        self._is_revoking = True
        life_epoch = self.epoch

        def revoked() -> None:
            self._is_revoking = False
            if self.assigned is None or self.epoch < life_epoch:
                return  # fenced meanwhile
            self.uses &= self.assigned
            self._reconcile()
            if not self._is_waiting:
                self._heartbeat()

        self._after(self.revocation_ms + 1, revoked)

    def _commit(self) -> None:
        names = {image.topic_id: name for name, image in self.broker.topics.topics.items()}
        committed = [p for p in sorted(self.uses) if p[0] in names and self.world.chance(0.5)]
        topics = [
            OffsetCommitRequestTopic(
                names[topic],
                partitions=[
                    OffsetCommitRequestPartition(p, self.broker.next_offset((names[topic], p)), -1) for p in numbers
                ],
            )
            for topic, numbers in partitions_by_topic(committed)
        ]
        if topics:
            request = OffsetCommitRequest(GROUP, self.epoch, self.member_id, self.instance_id, -1, topics)
            self._send(request, self._committed, COMMIT_VERSION)

    def _committed(self, response: Message | None) -> None:
        self.accepted += response is not None

    # -- the network ---------------------------------------------------------------------------------------------------

    def _send(
        self,
        request: ConsumerGroupHeartbeatRequest | OffsetCommitRequest,
        answered: Callable[[Message | None], None],
        version: int = 1,
    ) -> None:
        """One attempt: where the connection breaks, the request or its response is lost, and the member notices later."""
        world = self.world
        notice_ms = world.faults.notice_ms + RETRY_MS
        broken_out, broken_back = (world.chance(world.faults.break_probability) for _ in range(2))

        def lost() -> None:
            self._after(notice_ms, lambda: answered(None))

        def arrived() -> None:
            if broken_out or not self.broker.up or world.now_ms < self.cut_off_until_ms:
                lost()
                return
            incarnation = self.broker.incarnation
            ctx = Context(0, api_version=version, client_id=self.name, client_host="/127.0.0.1")

            def back(response: Message) -> None:
                if broken_back or world.now_ms < self.cut_off_until_ms:
                    lost()
                else:
                    self._after(world.delay_ms(), lambda: answered(response))

            self.broker.submit(request, ctx, back)
            if not self.broker.up or self.broker.incarnation != incarnation:
                lost()

        # A request that is under way arrives though its process has died.
        world.after(world.delay_ms(), arrived)
