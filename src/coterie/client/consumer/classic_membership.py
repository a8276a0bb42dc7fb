"""A consumer's membership by the classic protocol: as leader it assigns, by assignors that may be the user's."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from coterie.assignors import ASSIGNORS, AssignableTopics, Assignor
from coterie.assignors.blobs import decode_assignment
from coterie.client.connection.cluster import Cluster, TopicInfo
from coterie.client.consumer.membership import REFUSED_TOPIC, Membership, now_ms
from coterie.client.errors import ConfigError, KafkaError, error_about
from coterie.client.lint.lint import STATIC_FROM
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import SubscriptionPattern
from coterie.member.config import MemberConfig
from coterie.member.consumer.decision import ConsumerEffect
from coterie.member.effects import Assigned, AssignGroup, Effect, LookForUnassigned, Revoke, WatchTopics
from coterie.member.machine import MemberMachine
from coterie.member.remedies import leave_refusal
from coterie.member.requests import by_topic, heartbeat_request, leave_request
from coterie.member.state import Stage
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.groups.heartbeat import HeartbeatResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.wire.messages.groups.leave_group import LeaveGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupResponse
from coterie.wire.primitives import WireError

logger = logging.getLogger(__name__)

JOIN_GRACE_S = 5.0  # beyond the rebalance timeout, in which a JoinGroup may wait for the whole group
LONGEST_S = 2**31 / 1000
_COUNTED = {JoinGroupResponse: "joins", SyncGroupResponse: "syncs", HeartbeatResponse: "heartbeats"}
_OVERDUE = "poll was not called for max.poll.interval.ms"


def member_config(settings: ClientSettings, group_id: str) -> MemberConfig:
    """Raises ConfigError for settings that no member can work with."""
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        heartbeat, session = settings.heartbeat_interval_ms, settings.session_timeout_ms
        raise ConfigError(f"heartbeat.interval.ms ({heartbeat}) must be lower than session.timeout.ms ({session})")
    listed = settings.partition_assignment_strategy
    specs = ASSIGNORS | {assignor.name: assignor.spec() for assignor in listed if isinstance(assignor, Assignor)}
    config = MemberConfig(
        group_id,
        settings.group_instance_id,
        settings.session_timeout_ms,
        settings.heartbeat_interval_ms,
        max_poll_interval_ms=settings.max_poll_interval_ms,
        retry_backoff_ms=settings.retry_backoff_ms,
        assignors=tuple(assignor if isinstance(assignor, str) else assignor.name for assignor in listed),
        rack=settings.client_rack,
        retry_backoff_max_ms=settings.retry_backoff_max_ms,
        assignor_specs=specs,
    )
    try:
        _ = config.protocol
    except ValueError as error:
        raise ConfigError(f"partition.assignment.strategy: {error}") from error
    return config


class ClassicMembership(Membership):
    """Drives a `MemberMachine`."""

    machine: MemberMachine

    def __init__(self, cluster: Cluster, group_id: str, tell_poll: Callable[[], None]) -> None:
        super().__init__(cluster, group_id, tell_poll)
        self.machine = MemberMachine(member_config(cluster.settings, group_id))
        self._watched: frozenset[str] = frozenset()
        self._by_rack = False

    def subscribe_regex(self, pattern: SubscriptionPattern) -> None:
        """Raises ConfigError: the classic protocol has patterns of the client alone."""
        raise ConfigError(
            "a SubscriptionPattern needs group.protocol=consumer, where the broker matches it; subscribe to a compiled "
            "pattern (re.compile) with the classic protocol"
        )

    def on_assignment(self, assigned: Assigned) -> None:
        """Calls the assignor in force, which may be a user's."""
        spec = self.machine.config.assignor_specs.get(self.machine.state.membership.protocol or "")
        if spec is not None:
            spec.on_assignment(by_topic(assigned.partitions), assigned.generation)

    def listener_returned(self, effect: Revoke | Assigned, *, failed: bool) -> None:
        """A callback that raised is over all the same."""
        if isinstance(effect, Revoke):
            self.machine.revoked()
            self._wake.set()

    def enforce_rebalance(self, reason: str) -> None:
        """The member joins again, in a new generation."""
        self.machine.enforce_rebalance(reason)
        self._wake.set()

    def is_stable(self) -> bool:
        return self.machine.stage == Stage.STABLE

    def _stand_in(self) -> tuple[Message, Message | None, float]:
        """A static member does not leave, it only falls silent."""
        machine, config = self.machine, self.machine.config
        leaves = config.group_instance_id is None
        leave = leave_request(config, machine.member_id, _OVERDUE) if leaves else None
        heartbeat = heartbeat_request(config, machine.member_id, machine.generation)
        return heartbeat, leave, config.heartbeat_interval_ms / 1000

    def _carry_out_own(self, effect: Effect | ConsumerEffect) -> None:
        match effect:
            case AssignGroup():
                self._by_rack = any(s.rack for s in effect.subscribers)
                self._watched = effect.topics
                self._task(self._assign_group(effect))
            case WatchTopics(topics):
                self._watched = topics
            case LookForUnassigned(topics):
                self._task(self._look_for_unassigned(topics))

    def _timeout_s(self, request: Message) -> float:
        if not isinstance(request, JoinGroupRequest):
            return self._cluster.timeout_s
        return min(max(self._cluster.timeout_s, request.rebalance_timeout_ms / 1000 + JOIN_GRACE_S), LONGEST_S)

    def _check_version(self, request: Message, version: int) -> None:
        """A broker that does not know static members would take one for a dynamic one."""
        is_static = isinstance(request, JoinGroupRequest) and request.group_instance_id is not None
        if is_static and version < STATIC_FROM:
            text = "group.instance.id needs JoinGroup version 5, which Apache Kafka has from 2.3 on"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)

    def _responded(self, request: Message, response: Message) -> None:
        if isinstance(response, LeaveGroupResponse):
            code = leave_refusal(response)
            if code:
                logger.warning("leaving group %s was refused: %s", self._group_id, code.name)
            return
        self.counts[_COUNTED.get(type(response), "heartbeats")] += 1
        self.machine.responded(request, response, now_ms())

    # -- topics -----------------------------------------------------------------------------------------------------------

    async def _assign_group(self, effect: AssignGroup) -> None:
        """From the metadata at hand, as ConsumerCoordinator.onLeaderElected: a request would queue behind a held Fetch. What
        has changed since is seen by `_look_at_topics`, which begins the next rebalance."""
        # What matched a pattern may have been deleted since: it is not created again.
        create = self._cluster.settings.allow_auto_create_topics and self._pattern is None
        try:
            infos = await self._cluster.topics(effect.topics, create=create)
            for name in effect.topics & self.machine.topics:
                if name in infos and infos[name].error in REFUSED_TOPIC:
                    self._complain(error_about(infos[name].error, f"topic {name}"))
        except KafkaError as error:
            if not error.retriable:
                self._fail(error)
            self.machine.assignment_failed("the topics could not be looked up", now_ms())
            self._wake.set()
            return
        topics = self._topics(infos)
        self.machine.group_assigned(
            self.machine.config.assignor_specs[effect.protocol].assign(topics, effect.subscribers), topics
        )
        self._wake.set()

    async def _look_for_unassigned(self, topics: frozenset[str]) -> None:
        group_id = self.machine.config.group_id
        assert self._coordinator is not None
        try:
            infos = await self._cluster.topics(topics)
            response = await self._cluster.request(DescribeGroupsRequest([group_id]), self._coordinator)
            given = {tp for m in response.groups[0].members for tp in decode_assignment(m.member_assignment)}
        except (KafkaError, WireError):
            self.machine.unassigned_unknown(now_ms())
        else:
            everything = {(t, p) for t, info in infos.items() for p in info.leaders}
            if response.groups[0].group_state == "Stable":
                self.machine.unassigned_seen(bool(everything - given))
        self._wake.set()

    def _topics(self, infos: dict[str, TopicInfo]) -> AssignableTopics:
        """What there is to assign; racks only where a member has one, so that nobody else rebalances for them."""
        infos_with_leaders = {n: infos[n] for n in self._watched if n in infos and infos[n].leaders}
        racks = {n: info.racks for n, info in infos_with_leaders.items()} if self._by_rack else {}
        return AssignableTopics({n: len(info.leaders) for n, info in infos_with_leaders.items()}, racks)

    async def _look_at_topics(self) -> None:
        """A leader looks out for what became of the whole group's topics."""
        if self._watched and self.is_stable() and self.machine.is_leader:
            with contextlib.suppress(KafkaError):
                self.machine.topics_seen(self._topics(await self._cluster.topics(self._watched)))
                self._wake.set()
