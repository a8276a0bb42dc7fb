"""The laboratory's consumers of the classic protocol and of the consumer protocol (KIP-848): the client's own machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from coterie.assignors import ASSIGNORS, AssignableTopics
from coterie.assignors.blobs import decode_assignment, decode_subscription
from coterie.coordinator.consumer.image import TopicsImage
from coterie.laboratory.brokers.broker_actor import MemberBroker
from coterie.laboratory.deliveries import Ownership
from coterie.laboratory.member_checkers import ConsumerMemberChecker, MemberChecker
from coterie.laboratory.members.group_member_actor import ActorEffect, GroupMemberActor
from coterie.laboratory.world import World
from coterie.member.config import ConsumerMemberConfig, MemberConfig
from coterie.member.consumer.decision import LookUpTopics
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.state import HEARTBEATS
from coterie.member.effects import AssignGroup, LookForUnassigned
from coterie.member.machine import MemberMachine
from coterie.member.state import NOT_TAKING_PART, Stage

_RAISES = 0.02  # the share of the listener's calls that raise


class MemberActor(GroupMemberActor[MemberConfig, MemberMachine]):
    """A consumer process with a `MemberMachine`."""

    def _make_machine(self) -> None:
        self._checker = MemberChecker()
        self.machine = MemberMachine(self.config, self._checker.observe if self.checks else None)

    def _check_machine(self) -> None:
        self._checker.check(self.machine)

    def topics_seen(self, topics: AssignableTopics) -> None:
        """Renewed metadata shows these topics."""
        if self.alive:
            self.machine.topics_seen(topics)
            self.pump()

    def _takes_part(self) -> bool:
        return self.machine.stage not in NOT_TAKING_PART

    def _carry_out_own(self, effect: ActorEffect) -> None:
        match effect:
            case AssignGroup(protocol, subscribers, wanted):
                counts = {t: n for t, n in self.broker.partitions.items() if t in wanted}
                topics = AssignableTopics(counts)
                self.machine.group_assigned(ASSIGNORS[protocol].assign(topics, subscribers), topics)
            case LookForUnassigned(wanted):
                self._look_for_unassigned(wanted)

    def _look_for_unassigned(self, topics: frozenset[str]) -> None:
        group = self.broker.shard.groups.get(self.config.group_id)
        if group is not None and self.broker.up and not self.cut_off():
            given = {tp for m in group.members.values() for tp in decode_assignment(m.assignment)}
            everything = {(t, p) for t in topics for p in range(self.broker.partitions.get(t, 0))}
            self.machine.unassigned_seen(bool(everything - given))
        else:
            self.machine.unassigned_unknown(self.clock_ms())

    def _check_free(self, added: tuple[tuple[str, int], ...]) -> None:
        """No other member of the group still has what we are given."""
        group = self.broker.shard.groups.get(self.config.group_id)
        if group is None or self.machine.member_id not in group.members:
            return
        for other in self.ownership.actors:
            if other is self or not other.alive or other.machine.member_id not in group.members:
                continue
            # A static member that did not join again is kept, with what it claimed when it last did (KIP-345), and learns
            # only afterwards what it has lost.
            stored = decode_subscription(group.members[other.machine.member_id].protocols[0][1]).generation
            joining = other.machine.stage == Stage.JOINING and stored == other.machine.generation
            if other.machine.generation == group.generation or joining:
                both = other.owned & set(added)
                assert not both, f"{self.name} was given {sorted(both)} while {other.name} still has it"


class _ConsumerMemberBroker(MemberBroker, Protocol):
    """What a member uses of its broker: the topics' ids besides."""

    @property
    def topics(self) -> TopicsImage:
        """The topics as the coordinator knows them."""
        ...


class ConsumerMemberActor(GroupMemberActor[ConsumerMemberConfig, ConsumerMemberMachine]):
    """A consumer process with a `ConsumerMemberMachine`."""

    def __init__(
        self,
        world: World,
        broker: _ConsumerMemberBroker,
        name: str,
        config: ConsumerMemberConfig,
        topics: frozenset[str],
        ownership: Ownership,
    ) -> None:
        self._metadata = broker
        super().__init__(world, broker, name, config, topics, ownership)
        self._make_machine()

    @property
    def member_id(self) -> str:
        return self.machine.member_id

    @property
    def epoch(self) -> int:
        """The member epoch; 0 or less outside the group."""
        return self.machine.state.epochs.epoch

    def _make_machine(self) -> None:
        """A new process has a new member id."""
        self.config = replace(self.config, member_id=f"{self.name}-{self.world.fresh_id()[:6]}")
        self._checker = ConsumerMemberChecker()
        self.machine = ConsumerMemberMachine(self.config, self._checker.observe if self.checks else None)

    def _check_machine(self) -> None:
        self._checker.check(self.machine)

    def _takes_part(self) -> bool:
        return self.machine.stage in HEARTBEATS

    def _carry_out_own(self, effect: ActorEffect) -> None:
        if isinstance(effect, LookUpTopics):
            self.later(lambda: self._look_up_topics(effect.topic_ids))

    def _look_up_topics(self, topic_ids: frozenset[bytes]) -> None:
        names: dict[bytes, str] = {}
        if self.broker.up and not self.cut_off():
            names = {i.topic_id: n for n, i in self._metadata.topics.topics.items() if i.topic_id in topic_ids}
        self.machine.topics_looked_up(names, self.clock_ms())

    def _check_free(self, added: tuple[tuple[str, int], ...]) -> None:
        """`consumer_group_fuzz` compares what it uses with what the coordinator holds."""

    def _take(self, partitions: tuple[tuple[str, int], ...], added: tuple[tuple[str, int], ...]) -> None:
        super()._take(partitions, added)
        if self.listener_ms:
            self._after(self.listener_ms, self._returned_from_assigned)
        else:
            self._returned_from_assigned()

    def _returned_from_assigned(self) -> None:
        if self.world.chance(_RAISES):
            self.machine.callback_failed()
        else:
            self.machine.assigned()

    def _revoked(self) -> None:
        if not self.world.chance(_RAISES):
            super()._revoked()
            return
        self.commits.offsets.revoked(self._revocations.popleft())
        self.machine.callback_failed()
