"""A consumer's membership by the consumer protocol (KIP-848): the broker assigns, and matches patterns of RE2. And by
group.protocol, which membership a consumer has, and which settings do not go with it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable

from coterie.client.connection.cluster import Cluster
from coterie.client.consumer.classic_membership import ClassicMembership
from coterie.client.consumer.membership import REFUSED_TOPIC, Membership, now_ms
from coterie.client.errors import KafkaError, error_about
from coterie.client.settings.settings import ClientSettings
from coterie.client.types import SubscriptionPattern
from coterie.member.config import ConsumerMemberConfig, GroupMembershipOperation
from coterie.member.consumer.decision import Complain, ConsumerEffect, LookUpTopics
from coterie.member.consumer.heartbeat import HeartbeatRequest, leave_epoch, leave_heartbeat
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.state import ConsumerStage
from coterie.member.effects import Assigned, Effect, Revoke
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

logger = logging.getLogger(__name__)
REGEX_FROM = 1  # the version of ConsumerGroupHeartbeat
_DEFAULT = GroupMembershipOperation.DEFAULT


def consumer_member_config(settings: ClientSettings, group_id: str) -> ConsumerMemberConfig:
    """The machine's settings, with a member id of its own (KIP-1082)."""
    return ConsumerMemberConfig(
        group_id,
        str(uuid.uuid4()),
        settings.group_instance_id,
        settings.max_poll_interval_ms,
        remote_assignor=settings.group_remote_assignor,
        rack=settings.client_rack,
        retry_backoff_ms=settings.retry_backoff_ms,
        retry_backoff_max_ms=settings.retry_backoff_max_ms,
    )


class ConsumerMembership(Membership):
    """Drives a `ConsumerMemberMachine`."""

    machine: ConsumerMemberMachine

    def __init__(self, cluster: Cluster, group_id: str, tell_poll: Callable[[], None]) -> None:
        super().__init__(cluster, group_id, tell_poll)
        self.machine = ConsumerMemberMachine(consumer_member_config(cluster.settings, group_id))
        self._stood_in = 0  # heartbeats of the thread that the machine has heard of

    def subscribe(self, topics: Iterable[str]) -> None:
        """Topics that do not exist yet are created, where allow.auto.create.topics and the broker allow it."""
        wanted = frozenset(topics)
        super().subscribe(wanted)
        self._task(self._look_up_subscribed(wanted))

    def subscribe_regex(self, pattern: SubscriptionPattern) -> None:
        """The broker matches the pattern (KIP-848)."""
        self._pattern = None
        self.complaint = None
        self.machine.subscribe(frozenset(), now_ms(), pattern.pattern)
        self._start()
        self._wake.set()

    def polled(self) -> None:
        """What the poll calls for is due in the same poll."""
        super().polled()
        self._pump()

    def listener_returned(self, effect: Revoke | Assigned, *, failed: bool) -> None:
        """What comes next is due in the same poll; after a callback that raised, in the next one."""
        if failed:
            self.machine.callback_failed()
        elif isinstance(effect, Revoke):
            self.machine.revoked()
        else:
            self.machine.assigned()
        self._pump()
        self._wake.set()

    def prepare_leave(self) -> None:
        """The listener's last callback comes first; then `leave`."""
        self.machine.prepare_leave()

    def keeps_assignment_of(self, generation: int) -> bool:
        """The member epoch rises also with changes that concern other members."""
        return generation > 0 and not self.for_poll

    def enforce_rebalance(self, reason: str) -> None:
        """Only a warning: members of this protocol cannot request one."""
        logger.warning("enforce_rebalance has no effect with group.protocol=consumer, where the broker assigns")

    def is_stable(self) -> bool:
        return self.machine.stage == ConsumerStage.STABLE

    def _pump(self) -> None:
        if self._thread.sent != self._stood_in:
            self._stood_in = self._thread.sent
            self.machine.heartbeat_sent_elsewhere()
        super()._pump()

    def _stand_in(self) -> tuple[Message, Message | None, float]:
        """A full heartbeat, whose response the machine's next one repeats."""
        config = self.machine.config
        interval_s = self.machine.state.heartbeat.interval_ms / 1000
        return self.machine.full_heartbeat(), leave_heartbeat(config, leave_epoch(config, _DEFAULT)), interval_s

    def _carry_out_own(self, effect: Effect | ConsumerEffect) -> None:
        match effect:
            case LookUpTopics(topic_ids):
                self._task(self._look_up_topics(topic_ids))
            case Complain(code, message):
                self._complain(KafkaError(code, message))

    def _check_version(self, request: Message, version: int) -> None:
        """Before version 1 the request has no field for a pattern."""
        regex = request.subscribed_topic_regex if isinstance(request, ConsumerGroupHeartbeatRequest) else None
        if regex and version < REGEX_FROM:
            text = "a SubscriptionPattern needs ConsumerGroupHeartbeat version 1, which Apache Kafka has from 4.0 on"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)

    def _unsupported(self, error: KafkaError) -> None:
        text = str(error).removeprefix(f"{error.code.name}: ")
        self.machine.failed(error.code, text)

    def _responded(self, request: Message, response: Message) -> None:
        assert isinstance(request, HeartbeatRequest)
        self.counts["joins" if request.member_epoch == 0 else "heartbeats"] += 1
        self.machine.responded(request, response, now_ms())

    # -- topics -----------------------------------------------------------------------------------------------------------

    async def _look_up_topics(self, topic_ids: frozenset[bytes]) -> None:
        names: dict[bytes, str] = {}
        try:
            names = await self._cluster.topic_names(topic_ids)
        except KafkaError as error:
            if not error.retriable:
                self._complain(error)
        self.machine.topics_looked_up(names, now_ms())
        self._wake.set()

    async def _look_up_subscribed(self, topics: frozenset[str]) -> None:
        """The names that assigned topic ids will need, and the errors of topics that cannot be read."""
        try:
            infos = await self._cluster.topics(topics, create=self._cluster.settings.allow_auto_create_topics)
        except KafkaError as error:
            if not error.retriable:
                self._complain(error)
            return
        for name, info in infos.items():
            if info.error in REFUSED_TOPIC:
                self._complain(error_about(info.error, f"topic {name}"))


def make_membership(cluster: Cluster, group_id: str, tell_poll: Callable[[], None]) -> Membership:
    """By the setting group.protocol. ``tell_poll()`` is called when a poll has something to do. Raises ConfigError."""
    is_consumer = cluster.settings.group_protocol == "consumer"
    kind = ConsumerMembership if is_consumer else ClassicMembership
    return kind(cluster, group_id, tell_poll)
