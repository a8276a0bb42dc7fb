"""A member of a group: what it must do next, given what it was told. No clock, no socket, no callbacks.

A driver feeds it inputs (`coordinator_found`, `answered`, `polled`, ...) and asks `next` for effects until there are
none; it carries each effect out and reports back. The same machine runs in the asyncio consumer and in the laboratory.

Eager: everything is given up before a rebalance. Cooperative (KIP-429): only what is no longer subscribed to is given up
before it; what went to others is given up after it, the rest stays, and a second rebalance gives out what was given up.
Which of the two is in force follows from the assignors alone (`MemberConfig.protocol`).
"""

from __future__ import annotations

from coterie.assignors import ASSIGNORS, Assignment, Owned, RebalanceProtocol, Subscriber, Topics
from coterie.assignors.blobs import decode_assignment, decode_subscription
from coterie.assignors.cooperation import handed_over
from coterie.member.config import BEATING, IN_A_ROUND, LEGAL_SUCCESSORS, NOT_TAKING_PART, MemberConfig, Stage
from coterie.member.effects import (
    Assigned,
    AssignGroup,
    Effect,
    Failed,
    FindCoordinator,
    LookForUnassigned,
    Revoke,
    Send,
    TopicPartition,
    WatchTopics,
)
from coterie.member.errors import Remedy, remedy_for
from coterie.member.requests import (
    PROTOCOL_TYPE,
    by_topic,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.wire.messages.join_group import JoinGroupResponse
from coterie.wire.messages.sync_group import SyncGroupResponse
from coterie.wire.primitives import WireError


class MemberMachine:
    """One member's state and its inputs. Every input returns nothing; `next` says what follows from it."""

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.rebalance_protocol = config.protocol
        self._stage = Stage.OUTSIDE
        self.topics: frozenset[str] = frozenset()
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.protocol: str | None = None
        self.owned: tuple[TopicPartition, ...] = ()
        self.coordinator_known = False
        self.reason = "the consumer has just started"
        self._finding = False
        self._failures = 0  # in a row, for the back-off
        self._heartbeat_in_flight = False
        self._next_heartbeat_ms = 0
        self._session_deadline_ms = 0
        self._not_before_ms = 0
        self._last_poll_ms = 0
        self._lost = False  # what is owned may have new owners already
        self._telling: tuple[TopicPartition, ...] = ()  # the partitions of the last `Revoke`
        self._round: Message | None = None  # the JoinGroup or SyncGroup whose answer is awaited
        self._holds_back = False  # leader: not every partition was given out, or we cannot know
        self._rejoin_after = False  # something changed during the round: one more is due
        self._subscribers: tuple[Subscriber, ...] = ()
        self._snapshot: Topics | None = None  # leader: the topics as of the last assignment
        self._look_at_ms: int | None = None  # leader: when to see whether what was held back has found an owner
        self._given: tuple[TopicPartition, ...] = ()  # the assignment that is taken once the rest is released
        self._last: tuple[Owned, int] = ({}, -1)
        self._effects: list[Effect] = []

    @property
    def stage(self) -> Stage:
        return self._stage

    @stage.setter
    def stage(self, stage: Stage) -> None:
        before = self._stage
        assert stage in LEGAL_SUCCESSORS[before] or stage == before, f"{before.name} to {stage.name} is no transition"
        self._stage = stage

    # -- inputs from the user -----------------------------------------------------------------------------------------

    def subscribe(self, topics: frozenset[str], now_ms: int) -> None:
        """Joins, or joins again if the topics changed."""
        self._last_poll_ms = now_ms
        if topics == self.topics and self.stage not in NOT_TAKING_PART:
            return
        self.topics = topics
        self.rejoin("the subscription changed" if self.member_id else self.reason)

    def polled(self, now_ms: int) -> None:
        """The user asked for records: a sign of life. A member that had left for being slow joins again."""
        self._last_poll_ms = now_ms
        if self.stage == Stage.OUTSIDE and self.topics:
            self.stage = Stage.REJOIN

    def rejoin(self, reason: str) -> None:
        """Asks for a rebalance; a round that is under way runs to its end first, and one more follows."""
        self.reason = reason
        if self.stage in (Stage.STABLE, Stage.OUTSIDE, Stage.FAILED):
            self.stage = Stage.REJOIN
        elif self.stage in IN_A_ROUND:
            self._rejoin_after = True

    def leave(self, reason: str) -> None:
        """Leaves at once, unless static (KIP-345). What is owned is revoked first by the driver."""
        dynamic = self.config.group_instance_id is None
        if dynamic and self.member_id and self.coordinator_known:
            self._effects.append(Send(leave_request(self.config, self.member_id, reason)))
        self.member_id, self.generation, self.leader, self.protocol = "", -1, "", None
        self._round = self._snapshot = self._look_at_ms = None
        self._rejoin_after = self._lost = False
        self.stage, self.topics, self.owned = Stage.OUTSIDE, frozenset(), ()

    # -- inputs from the driver -----------------------------------------------------------------------------------------

    def coordinator_found(self) -> None:
        self.coordinator_known, self._finding = True, False

    def lookup_failed(self, now_ms: int) -> None:
        self._finding = False
        self._back_off(now_ms)

    def revoked(self) -> None:
        """The listener has been told of the last `Revoke`."""
        gone, self._telling = set(self._telling), ()
        self.owned = tuple(tp for tp in self.owned if tp not in gone)
        self._lost = self._lost and bool(self.owned)
        if self.stage == Stage.REVOKING:
            self.stage = Stage.REJOIN  # which looks whether anything else must be given up
        elif self.stage == Stage.RELEASING:
            if self.generation >= 0:
                self._take()
            self.stage = Stage.REJOIN

    def group_assigned(self, assignments: Assignment, topics: Topics) -> None:
        """The leader's assignment, and the topics it was made from."""
        if self.stage != Stage.ASSIGNING:
            return
        self._snapshot = topics
        assert self.protocol is not None
        if self.rebalance_protocol == RebalanceProtocol.COOPERATIVE and self.protocol != "cooperative-sticky":
            moved = handed_over(self._subscribers, assignments)
            if moved:
                text = (
                    f"assignor {self.protocol} hands {moved[0]}-{moved[1]} over in one step; a cooperative one may not"
                )
                self._fail(ErrorCode.UNKNOWN_SERVER_ERROR, text)
                return
        given = sum(len(ps) for share in assignments.values() for ps in share.values())
        self._holds_back = given < sum(topics.counts.values())
        self._sync(assignments)

    def unassigned_seen(self, found: bool) -> None:
        """What `LookForUnassigned` asked for. A static member that gave partitions up and died before it joined again comes
        back without a rebalance (KIP-345), and nobody else would ever give them out."""
        if found and self.leader == self.member_id:
            self.rejoin("partitions have no owner")

    def unassigned_unknown(self, now_ms: int) -> None:
        """It could not be seen; one looks again later."""
        if self.leader == self.member_id:
            self._look_at_ms = now_ms + self.config.session_timeout_ms

    def assignment_failed(self, reason: str, now_ms: int) -> None:
        """The group could not be assigned: the leader joins again, and so begins a new round."""
        if self.stage == Stage.ASSIGNING:
            self.reason = reason
            self._back_off(now_ms)
            self.stage = Stage.REJOIN

    def topics_seen(self, topics: Topics) -> None:
        """What the topics of the whole group have become; where that differs from what we, the leader, assigned by, the
        group is assigned anew, as by ConsumerCoordinator's metadata snapshot."""
        if self._snapshot is None:
            self._snapshot = topics
        if self.leader == self.member_id and topics != self._snapshot:
            self._snapshot = topics
            self.rejoin("partitions or racks of the group's topics changed")

    def lost_connection(self, request: Message, now_ms: int) -> None:
        """No answer will come: the coordinator is looked up again, and a round under way starts over."""
        self._coordinator_lost(now_ms)
        if isinstance(request, HeartbeatRequest):
            self._heartbeat_in_flight = False
        elif request is self._round:
            self._round = None
            self.stage = Stage.REJOIN

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

    def membership_refused(self, code: ErrorCode) -> None:
        """A commit of the present generation was told that it is none (member/commits.py)."""
        self._forget_generation(code)
        self.rejoin(f"a commit was told {code.name}")

    # -- what follows ------------------------------------------------------------------------------------------------------

    def next(self, now_ms: int) -> list[Effect]:
        """What to do now; each effect is said once."""
        self._check_poll(now_ms)
        self._check_coordinator(now_ms)
        if self.coordinator_known:
            self._advance(now_ms)
            self._beat(now_ms)
            self._look(now_ms)
        effects, self._effects = self._effects, []
        return effects

    def next_deadline_ms(self) -> int | None:
        """When to call `next` although nothing was heard; None: only after an input."""
        if self.stage in NOT_TAKING_PART:
            return None
        times = [self.poll_deadline_ms + 1]
        if self.coordinator_known:
            if self.stage == Stage.READY:
                times.append(self._not_before_ms)
            elif self.is_beating():
                times.append(self._session_deadline_ms if self._heartbeat_in_flight else self._next_heartbeat_ms)
                if self._look_at_ms is not None and self.stage == Stage.STABLE:
                    times.append(self._look_at_ms)
        elif not self._finding:
            # Heartbeats wait for the coordinator: a deadline of theirs that cannot be met would wake for nothing.
            times.append(self._not_before_ms)
        return min(times)

    @property
    def poll_deadline_ms(self) -> int:
        """When the member counts as stuck unless it is polled (max.poll.interval.ms)."""
        return self._last_poll_ms + self.config.max_poll_interval_ms

    def _check_poll(self, now_ms: int) -> None:
        if now_ms > self.poll_deadline_ms and self.stage not in NOT_TAKING_PART:
            topics, owned = self.topics, self.owned
            self.leave(f"poll was not called for {self.config.max_poll_interval_ms} ms (max.poll.interval.ms)")
            self.topics, self.owned, self._lost = topics, owned, bool(owned)

    def _check_coordinator(self, now_ms: int) -> None:
        if self._heartbeat_in_flight and now_ms >= self._session_deadline_ms and self.is_beating():
            self._heartbeat_in_flight = False
            self._coordinator_lost(now_ms)
        wanted = not self.coordinator_known and not self._finding and now_ms >= self._not_before_ms
        if wanted and self.stage not in NOT_TAKING_PART:
            self._finding = True
            self._effects.append(FindCoordinator())

    def _advance(self, now_ms: int) -> None:
        if self.stage == Stage.REJOIN:
            self._telling = self._to_give_up()
            if self._telling:
                self.stage = Stage.REVOKING
                self._effects.append(Revoke(self._telling, self._lost))
            else:
                self.stage = Stage.READY
        if self.stage == Stage.READY and now_ms >= self._not_before_ms:
            self.stage = Stage.JOINING
            self._rejoin_after = False
            request = join_request(
                self.config, self.member_id, self.topics, self.owned, self.generation, self._last, self.reason
            )
            self._send_round(request)

    def _look(self, now_ms: int) -> None:
        if self._look_at_ms is not None and now_ms >= self._look_at_ms and self.stage == Stage.STABLE:
            self._look_at_ms = None
            self._effects.append(LookForUnassigned(frozenset(t for s in self._subscribers for t in s.topics)))

    def _to_give_up(self) -> tuple[TopicPartition, ...]:
        """What must go before a rebalance."""
        if self._lost or self.rebalance_protocol == RebalanceProtocol.EAGER:
            return self.owned
        return tuple(tp for tp in self.owned if tp[0] not in self.topics)

    def _send_round(self, request: Message) -> None:
        self._round = request
        self._effects.append(Send(request))

    def is_beating(self) -> bool:
        """Whether heartbeats are owed."""
        return self.stage in BEATING and self.generation >= 0 and self.member_id != ""

    def _beat(self, now_ms: int) -> None:
        if not self._heartbeat_in_flight and now_ms >= self._next_heartbeat_ms and self.is_beating():
            self._heartbeat_in_flight = True
            self._next_heartbeat_ms = now_ms + self.config.heartbeat_interval_ms
            self._session_deadline_ms = now_ms + self.config.session_timeout_ms
            self._effects.append(Send(heartbeat_request(self.config, self.member_id, self.generation)))

    # -- answers -------------------------------------------------------------------------------------------------------------

    def _joined(self, request: Message, response: JoinGroupResponse, now_ms: int) -> None:
        code = error_of(response.error_code)
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.stage = Stage.READY
            return
        if not code and response.protocol_type not in (None, PROTOCOL_TYPE):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if code:
            self._remedy(request, code, now_ms)
            return
        self._failures, self._look_at_ms = 0, None
        self._holds_back = bool(response.skip_assignment)
        self.member_id, self.generation = response.member_id, response.generation_id
        self.leader, self.protocol = response.leader, response.protocol_name
        self._next_heartbeat_ms = now_ms + self.config.heartbeat_interval_ms
        self._snapshot = None
        if response.leader != response.member_id:
            self._sync({})
            return
        try:
            self._subscribers = tuple(
                decode_subscription(m.metadata, m.member_id, m.group_instance_id) for m in response.members
            )
        except WireError as error:
            self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"a member's subscription cannot be read: {error}")
            return
        topics = frozenset(t for s in self._subscribers for t in s.topics)
        if response.skip_assignment:
            self._effects.append(WatchTopics(topics))
            self._sync({})
        elif response.protocol_name not in ASSIGNORS:
            self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"there is no assignor {response.protocol_name}")
        else:
            self.stage = Stage.ASSIGNING
            self._effects.append(AssignGroup(response.protocol_name, self._subscribers, topics))

    def _sync(self, assignments: Assignment) -> None:
        self.stage = Stage.SYNCING
        self._send_round(sync_request(self.config, self.member_id, self.generation, self.protocol, assignments))

    def _synced(self, request: Message, response: SyncGroupResponse, now_ms: int) -> None:
        code = error_of(response.error_code)
        strange = response.protocol_type not in (None, PROTOCOL_TYPE)
        # A generation that was reset meanwhile has no protocol to compare with.
        if not code and (strange or (self.generation >= 0 and response.protocol_name not in (None, self.protocol))):
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if code:
            self._remedy(request, code, now_ms)
            return
        try:
            partitions = tuple(decode_assignment(response.assignment))
        except WireError as error:
            self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the assignment cannot be read: {error}")
            return
        if any(topic not in self.topics for topic, _ in partitions):
            self.reason = "the assignment names a topic that is not subscribed to"
            self.stage = Stage.REJOIN
            return
        self._failures = 0
        if self._holds_back and self.rebalance_protocol == RebalanceProtocol.COOPERATIVE:
            self._look_at_ms = now_ms + self.config.session_timeout_ms
        self._given = partitions
        given = set(partitions)
        self._telling = tuple(tp for tp in self.owned if tp not in given)
        if self._telling:
            self.reason = "partitions were given up for other members"
            self.stage = Stage.RELEASING
            self._effects.append(Revoke(self._telling, lost=False))
            return
        self._take()
        self.stage = Stage.REJOIN if self._rejoin_after else Stage.STABLE

    def _take(self) -> None:
        owned = set(self.owned)
        added = tuple(tp for tp in self._given if tp not in owned)
        self.owned = self._given
        self._last = by_topic(self.owned), self.generation
        self._effects.append(Assigned(self.owned, self.generation, added))

    def _beaten(self, request: HeartbeatRequest, response: HeartbeatResponse, now_ms: int) -> None:
        code = error_of(response.error_code)
        current = (request.member_id, request.generation_id) == (self.member_id, self.generation)
        if not code:
            self._failures = 0
        elif current and self.is_beating():
            self._remedy(request, code, now_ms)

    def _remedy(self, request: Message, code: ErrorCode, now_ms: int) -> None:
        """Errors are sorted by what must be done (member/errors.py)."""
        remedy = remedy_for(code)
        if remedy == Remedy.GIVE_UP:
            self._fail(code, code.text)
            return
        if remedy == Remedy.REJOIN_AS_NEW:
            self._forget_generation(code)
        if remedy == Remedy.FIND_COORDINATOR:
            self._coordinator_lost(now_ms)
        elif remedy == Remedy.RETRY:
            self._back_off(now_ms)
        if not isinstance(request, HeartbeatRequest):
            self.stage = Stage.REJOIN
        elif remedy == Remedy.REJOIN_AS_NEW:
            self.rejoin(f"a heartbeat was told {code.name}")
        elif remedy == Remedy.REJOIN and self.stage == Stage.STABLE:
            self.rejoin("the group is rebalancing")

    def _forget_generation(self, code: ErrorCode) -> None:
        """After ILLEGAL_GENERATION the member id is kept."""
        self._lost = bool(self.owned)
        self.generation = -1
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if self.stage in IN_A_ROUND:
            self._round, self.stage = None, Stage.REJOIN

    def _fail(self, code: ErrorCode, message: str) -> None:
        self.stage = Stage.FAILED
        self._telling = self.owned
        if self.owned:
            self._effects.append(Revoke(self.owned, lost=True))
        self._effects.append(Failed(code, message))

    def _coordinator_lost(self, now_ms: int) -> None:
        self.coordinator_known = False
        self._back_off(now_ms)

    def _back_off(self, now_ms: int) -> None:
        """Each failure in a row doubles the pause, up to retry.backoff.max.ms (KIP-580)."""
        pause_ms = min(self.config.retry_backoff_ms << min(self._failures, 16), self.config.retry_backoff_max_ms)
        self._failures += 1
        self._not_before_ms = now_ms + max(pause_ms, self.config.retry_backoff_ms)
