"""The laboratory's consumer of the consumer protocol (KIP-848): the client's own machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from coterie.coordinator.consumer.image import TopicsImage
from coterie.laboratory.brokers.member_broker import MemberBroker
from coterie.laboratory.checking.consumer_member_checker import ConsumerMemberChecker
from coterie.laboratory.members.group_member_actor import ActorEffect, GroupMemberActor
from coterie.laboratory.ownership import Ownership
from coterie.laboratory.world import World
from coterie.member.config import ConsumerMemberConfig
from coterie.member.consumer.decision import LookUpTopics
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.state import HEARTBEATS

RAISES = 0.02  # the share of the listener's calls that raise


class ConsumerMemberBroker(MemberBroker, Protocol):
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
        broker: ConsumerMemberBroker,
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
        if self.world.chance(RAISES):
            self.machine.callback_failed()
        else:
            self.machine.assigned()

    def _revoked(self) -> None:
        if not self.world.chance(RAISES):
            super()._revoked()
            return
        self.commits.offsets.revoked(self._revocations.popleft())
        self.machine.callback_failed()
