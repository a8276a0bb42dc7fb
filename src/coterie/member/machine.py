"""A member of a group: what it must do next, given what it was told. No clock, no socket, no callbacks.

A driver feeds it inputs (`coordinator_found`, `answered`, `polled`, ...) and asks `next` for effects until there are
none; it carries each effect out and reports back. The same machine runs in the asyncio consumer and in the
laboratory. Eager protocol (range, round robin): all partitions are given up before a rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coterie.assignors.blobs import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from coterie.assignors.subscription import Assignment, Subscriber
from coterie.member.errors import Remedy, remedy_for
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from coterie.wire.primitives import WireError

PROTOCOL_TYPE = "consumer"
TopicPartition = tuple[str, int]


@dataclass(slots=True)
class MemberConfig:
    """Kafka's consumer settings that membership needs; times in ms. ``assignors`` in order of preference."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100
    assignors: tuple[str, ...] = ("range", "roundrobin")
    rack: str | None = None


class Stage(Enum):
    """Where a member stands between two generations."""

    OUTSIDE = "outside"  # no membership wanted
    REJOIN = "rejoin"  # a rebalance is due; what is owned has not been given up yet
    REVOKING = "revoking"  # the driver is telling the listener
    READY = "ready"  # JoinGroup can go out
    JOINING = "joining"
    ASSIGNING = "assigning"  # leader: the driver looks up the topics and assigns
    SYNCING = "syncing"
    STABLE = "stable"
    FAILED = "failed"


# -- effects: what a driver is to do ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Look the coordinator up, then call `coordinator_found` (or `lookup_failed`)."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send to the coordinator, then call `answered` or `lost_connection`."""

    request: Message


@dataclass(frozen=True, slots=True)
class Revoke:
    """Commit if that is automatic, tell the listener, then call `revoked`. ``lost``: they may have new owners already."""

    partitions: tuple[TopicPartition, ...]
    lost: bool


@dataclass(frozen=True, slots=True)
class AssignGroup:
    """We lead: look up the partition counts of ``topics``, run the assignor, then call `group_assigned`."""

    protocol: str
    subscribers: tuple[Subscriber, ...]
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A new generation's partitions: tell the listener, start fetching."""

    partitions: tuple[TopicPartition, ...]
    generation: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The caller must hear of this; the member gives up."""

    code: ErrorCode
    message: str


Effect = FindCoordinator | Send | Revoke | AssignGroup | Assigned | Failed

_BEATING = frozenset({Stage.REJOIN, Stage.REVOKING, Stage.ASSIGNING, Stage.SYNCING, Stage.STABLE})


class MemberMachine:
    """One member's state and its inputs. Every input returns nothing; `next` says what follows from it."""

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.stage = Stage.OUTSIDE
        self.topics: frozenset[str] = frozenset()
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.protocol: str | None = None
        self.owned: tuple[TopicPartition, ...] = ()
        self.coordinator_known = False
        self.reason = "the consumer has just started"
        self._finding = False
        self._heartbeat_in_flight = False
        self._next_heartbeat_ms = 0
        self._session_deadline_ms = 0
        self._not_before_ms = 0
        self._last_poll_ms = 0
        self._lost = False
        self._round: Message | None = None  # the JoinGroup or SyncGroup whose answer is awaited
        self._assignments: Assignment = {}
        self._effects: list[Effect] = []

    # -- inputs from the user -----------------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str], now_ms: int) -> None:
        """Joins, or joins again if the topics changed."""
        self._last_poll_ms = now_ms
        if topics == self.topics and self.stage not in (Stage.OUTSIDE, Stage.FAILED):
            return
        self.topics = topics
        self.rejoin("the subscription changed" if self.member_id else self.reason)

    def polled(self, now_ms: int) -> None:
        """The user asked for records: a sign of life. A member that had left for being slow joins again."""
        self._last_poll_ms = now_ms
        if self.stage == Stage.OUTSIDE and self.topics:
            self.stage = Stage.REJOIN

    def rejoin(self, reason: str) -> None:
        """Asks for a rebalance; a round that is under way runs to its end first."""
        self.reason = reason
        if self.stage in (Stage.STABLE, Stage.OUTSIDE, Stage.FAILED):
            self.stage = Stage.REJOIN

    def leave(self, reason: str) -> None:
        """Leaves at once, unless static (spec consumer.md 6). What is owned is revoked first by the driver."""
        dynamic = self.config.group_instance_id is None
        if dynamic and self.member_id and self.coordinator_known:
            identity = MemberIdentity(self.member_id, None, reason)
            self._effects.append(Send(LeaveGroupRequest(self.config.group_id, self.member_id, [identity])))
        self._reset()
        self._round = None
        self.stage, self.topics, self.owned = Stage.OUTSIDE, frozenset(), ()

    # -- inputs from the driver -----------------------------------------------------------------------------------------

    def coordinator_found(self) -> None:
        self.coordinator_known, self._finding = True, False

    def lookup_failed(self, now_ms: int) -> None:
        self._finding = False
        self._not_before_ms = now_ms + self.config.retry_backoff_ms

    def revoked(self) -> None:
        """The listener has been told of the last `Revoke`."""
        self.owned, self._lost = (), False
        if self.stage == Stage.REVOKING:
            self.stage = Stage.READY

    def group_assigned(self, assignments: Assignment) -> None:
        """The leader's assignment, member id -> topic -> partitions."""
        if self.stage == Stage.ASSIGNING:
            self._assignments = assignments
            self._sync()

    def assignment_failed(self, reason: str, now_ms: int) -> None:
        """The group could not be assigned: the leader joins again, and so begins a new round."""
        if self.stage == Stage.ASSIGNING:
            self.reason = reason
            self._not_before_ms = now_ms + self.config.retry_backoff_ms
            self.stage = Stage.READY

    def lost_connection(self, request: Message, now_ms: int) -> None:
        """No answer will come: the coordinator is looked up again, and a round under way starts over."""
        self._coordinator_lost(now_ms)
        if isinstance(request, HeartbeatRequest):
            self._heartbeat_in_flight = False
        elif request is self._round:
            self._round = None
            self.stage = Stage.READY

    def answered(self, request: Message, response: Message, now_ms: int) -> None:
        """The answer to something sent. An answer to a join or sync that was given up on is passed over."""
        if isinstance(response, HeartbeatResponse) and isinstance(request, HeartbeatRequest):
            self._heartbeat_in_flight = False
            self._beaten(request, response, now_ms)
        elif request is self._round:
            self._round = None
            if isinstance(response, JoinGroupResponse):
                self._joined(request, response, now_ms)
            elif isinstance(response, SyncGroupResponse):
                self._synced(request, response, now_ms)

    # -- what follows ------------------------------------------------------------------------------------------------------

    def next(self, now_ms: int) -> list[Effect]:
        """What to do now; each effect is said once."""
        self._check_poll(now_ms)
        self._check_coordinator(now_ms)
        if self.coordinator_known:
            self._advance(now_ms)
            self._beat(now_ms)
        effects, self._effects = self._effects, []
        return effects

    def next_deadline_ms(self) -> int | None:
        """When to call `next` although nothing was heard; None: only after an input."""
        if self.stage in (Stage.OUTSIDE, Stage.FAILED):
            return None
        times = [self._last_poll_ms + self.config.max_poll_interval_ms + 1]
        if self.coordinator_known:
            if self.stage == Stage.READY:
                times.append(self._not_before_ms)
            elif self._beats():
                times.append(self._session_deadline_ms if self._heartbeat_in_flight else self._next_heartbeat_ms)
        elif not self._finding:
            # Heartbeats wait for the coordinator: a deadline of theirs that cannot be met would wake for nothing.
            times.append(self._not_before_ms)
        return min(times)

    def _check_poll(self, now_ms: int) -> None:
        slow = now_ms - self._last_poll_ms > self.config.max_poll_interval_ms
        if slow and self.stage not in (Stage.OUTSIDE, Stage.FAILED):
            topics, owned = self.topics, self.owned
            self.leave(f"poll was not called for {self.config.max_poll_interval_ms} ms (max.poll.interval.ms)")
            self.topics, self.owned, self._lost = topics, owned, bool(owned)

    def _check_coordinator(self, now_ms: int) -> None:
        if self._heartbeat_in_flight and now_ms >= self._session_deadline_ms and self._beats():
            self._heartbeat_in_flight = False
            self._coordinator_lost(now_ms)
        wanted = not self.coordinator_known and not self._finding and now_ms >= self._not_before_ms
        if wanted and self.stage not in (Stage.OUTSIDE, Stage.FAILED):
            self._finding = True
            self._effects.append(FindCoordinator())

    def _advance(self, now_ms: int) -> None:
        if self.stage == Stage.REJOIN:
            if self.owned:
                self.stage = Stage.REVOKING
                self._effects.append(Revoke(self.owned, self._lost))
            else:
                self.stage = Stage.READY
        if self.stage == Stage.READY and now_ms >= self._not_before_ms:
            self.stage = Stage.JOINING
            self._send_round(self._join_request())

    def _send_round(self, request: Message) -> None:
        self._round = request
        self._effects.append(Send(request))

    def _join_request(self) -> JoinGroupRequest:
        metadata = encode_subscription(self.topics, (), self.generation, self.config.rack)
        return JoinGroupRequest(
            self.config.group_id,
            self.config.session_timeout_ms,
            self.config.max_poll_interval_ms,
            self.member_id,
            self.config.group_instance_id,
            PROTOCOL_TYPE,
            [JoinGroupRequestProtocol(name, metadata) for name in self.config.assignors],
            self.reason,
        )

    def _beats(self) -> bool:
        return self.stage in _BEATING and self.generation >= 0 and self.member_id != ""

    def _beat(self, now_ms: int) -> None:
        if not self._heartbeat_in_flight and now_ms >= self._next_heartbeat_ms and self._beats():
            self._heartbeat_in_flight = True
            self._next_heartbeat_ms = now_ms + self.config.heartbeat_interval_ms
            self._session_deadline_ms = now_ms + self.config.session_timeout_ms
            self._effects.append(
                Send(
                    HeartbeatRequest(
                        self.config.group_id, self.generation, self.member_id, self.config.group_instance_id
                    )
                )
            )

    # -- answers -------------------------------------------------------------------------------------------------------------

    def _joined(self, request: Message, response: JoinGroupResponse, now_ms: int) -> None:
        code = error_of(response.error_code)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.stage = Stage.READY
            return
        if code:
            self._remedy(request, code, now_ms)
            return
        self.member_id, self.generation = response.member_id, response.generation_id
        self.leader, self.protocol = response.leader, response.protocol_name
        self._next_heartbeat_ms = now_ms + self.config.heartbeat_interval_ms
        self._assignments = {}
        if response.leader != response.member_id or response.skip_assignment:
            self._sync()
            return
        try:
            subscribers = tuple(
                decode_subscription(m.metadata, m.member_id, m.group_instance_id) for m in response.members
            )
        except WireError as error:
            self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"a member's subscription cannot be read: {error}")
            return
        self.stage = Stage.ASSIGNING
        topics = frozenset(t for s in subscribers for t in s.topics)
        self._effects.append(AssignGroup(response.protocol_name or "", subscribers, topics))

    def _sync(self) -> None:
        self.stage = Stage.SYNCING
        assignments = [
            SyncGroupRequestAssignment(member_id, encode_assignment(partitions))
            for member_id, partitions in self._assignments.items()
        ]
        self._send_round(
            SyncGroupRequest(
                self.config.group_id,
                self.generation,
                self.member_id,
                self.config.group_instance_id,
                PROTOCOL_TYPE,
                self.protocol,
                assignments,
            )
        )

    def _synced(self, request: Message, response: SyncGroupResponse, now_ms: int) -> None:
        code = error_of(response.error_code)
        if code:
            self._remedy(request, code, now_ms)
            return
        try:
            partitions = decode_assignment(response.assignment)
        except WireError as error:
            self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignment cannot be read: {error}")
            return
        if any(topic not in self.topics for topic, _ in partitions):
            self.rejoin("the assignment names a topic that is not subscribed to")
            self.stage = Stage.READY
            return
        self.stage = Stage.STABLE
        self.owned = tuple(partitions)
        self._effects.append(Assigned(self.owned, self.generation))

    def _beaten(self, request: HeartbeatRequest, response: HeartbeatResponse, now_ms: int) -> None:
        code = error_of(response.error_code)
        current = (request.member_id, request.generation_id) == (self.member_id, self.generation)
        if code and current and self._beats():
            self._remedy(request, code, now_ms)

    def _remedy(self, request: Message, code: ErrorCode, now_ms: int) -> None:
        """Errors are sorted by what must be done (member/errors.py)."""
        remedy = remedy_for(code)
        if remedy == Remedy.GIVE_UP:
            self._fail(code, code.text)
            return
        if remedy == Remedy.REJOIN_AS_NEW:
            self._lost = bool(self.owned)
            self.generation = -1
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        if remedy == Remedy.FIND_COORDINATOR:
            self._coordinator_lost(now_ms)
        if remedy in (Remedy.FIND_COORDINATOR, Remedy.RETRY):
            self._not_before_ms = now_ms + self.config.retry_backoff_ms
        if isinstance(request, HeartbeatRequest):
            if remedy in (Remedy.REJOIN, Remedy.REJOIN_AS_NEW):
                self.rejoin(
                    "the group is rebalancing" if remedy == Remedy.REJOIN else f"a heartbeat was told {code.name}"
                )
        else:
            self.stage = Stage.READY if not self.owned else Stage.REJOIN

    def _fail(self, code: ErrorCode, message: str) -> None:
        self.stage = Stage.FAILED
        if self.owned:
            self._effects.append(Revoke(self.owned, lost=True))
        self._effects.append(Failed(code, message))

    def _coordinator_lost(self, now_ms: int) -> None:
        self.coordinator_known = False
        self._not_before_ms = now_ms + self.config.retry_backoff_ms

    def _reset(self) -> None:
        self.member_id, self.generation, self.leader, self.protocol = "", -1, "", None
