"""The laboratory's broker with groups of the consumer protocol: it knows its topics, and checks these groups as well."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.consumer.topics.image import TopicImage, TopicsImage
from coterie.coordinator.events import OffsetStored
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import Group, Phase
from coterie.laboratory.brokers.broker_actor import BrokerActor, BrokerCommand, Durability, Response
from coterie.laboratory.checking.consumer_group_checker import EpochChecker, check_loaded
from coterie.laboratory.world import World
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest


def topic_id_of(name: str) -> bytes:
    """The topic id of a name: the name itself, filled up to 16 bytes."""
    return name.encode().ljust(16, b".")


class GroupKind(StrEnum):
    """By the members of a group: of the classic protocol, of the consumer protocol, of the latter with some of the former."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    MIXED = "mixed"


def kind_of(group: AnyGroup) -> GroupKind | None:
    """The group's kind by its members; None where it has none."""
    if not group.members:
        return None
    if isinstance(group, Group):
        return GroupKind.CLASSIC
    mixed = any(member.subscription.classic is not None for member in group.members.values())
    return GroupKind.MIXED if mixed else GroupKind.CONSUMER


class ConsumerBrokerActor(BrokerActor):
    """``conversions`` counts the groups that changed their protocol, ``epochs_raised`` the group epochs, ``kinds`` has the
    kinds of group that there were. ``options``: those of `BrokerActor`."""

    def __init__(
        self,
        world: World,
        config: CoordinatorConfig,
        partitions: dict[str, int],
        durability: Durability = Durability.PROCESS,
        **options: Any,
    ) -> None:
        self.topics = TopicsImage()
        self.conversions = self.epochs_raised = 0
        self.kinds: set[GroupKind] = set()
        self._offsets: dict[tuple[str, int], int] = {}
        self._commit: tuple[OffsetCommitRequest, Context] | None = None
        for topic, count in partitions.items():
            self.set_partitions(topic, count)
        super().__init__(world, config, partitions, durability, **options)

    def set_partitions(self, topic: str, count: int) -> None:
        """Creates the topic, or gives it more partitions."""
        image = TopicImage(topic, topic_id_of(topic), count)
        version = self.topics.version + 1
        created = self.topics.created_version if topic in self.topics.topics else version
        self.topics = TopicsImage({**self.topics.topics, topic: image}, version, created)

    def next_offset(self, partition: tuple[str, int]) -> int:
        """The next offset to commit: it rises with every commit of any member."""
        self._offsets[partition] = self._offsets.get(partition, 0) + 1
        return self._offsets[partition]

    def start(self) -> None:
        self.epochs = EpochChecker()
        super().start()

    def context(self) -> Context:
        return Context(self.now_ms(), topics=self.topics)

    def submit(self, command: BrokerCommand, ctx: Context, response: Response) -> None:
        ctx.topics = self.topics
        if getattr(command, "member_id", None) == "":
            ctx.fresh_id = self.world.fresh_id()
        self._commit = (command, ctx) if isinstance(command, OffsetCommitRequest) else None
        super().submit(command, ctx, response)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            self.epochs.check(step)
        before = {type(step.event).__name__ for step in steps}
        for step in steps:
            if self._starts_anew(step, before):
                self.generations.forget(step.group_id)
        self.conversions += "GroupRemoved" in before or "GroupEpochRemoved" in before
        self.epochs_raised += "GroupEpochStored" in before
        kind = kind_of(decision.group) if steps else None
        if kind is not None:
            self.kinds.add(kind)
        if isinstance(decision.group, ConsumerGroup):
            self._check_commit(decision, decision.group)
        super()._committed(decision, steps)

    @staticmethod
    def _starts_anew(step: Step, names: set[str]) -> bool:
        """An empty group that changes its protocol is removed, and the other kind counts from 0, as in Kafka
        (maybeDeleteEmptyClassicGroup, maybeDeleteEmptyConsumerGroup)."""
        name = type(step.event).__name__
        if name == "GroupRemoved":
            return step.phase_before == Phase.EMPTY
        return name == "GroupEpochRemoved" and "GroupStored" not in names

    def _check_commit(self, decision: Decision, group: ConsumerGroup) -> None:
        """A commit that is accepted is never one of a partition that another member has; unless the disk forgot an
        assignment that it had acknowledged, in an epoch that goes on."""
        if self._commit is None or (self.durability == Durability.LYING and self.crashes):
            return
        request, _ = self._commit
        for event in decision.outcome.events:
            if isinstance(event, OffsetStored):
                partition = (topic_id_of(event.topic), event.partition)
                owner = group.owners.get(partition, request.member_id)
                assert owner == request.member_id, (
                    f"{request.member_id} committed {event.topic}-{event.partition}, which {owner} has"
                )

    def check_log(self) -> None:
        super().check_log()
        again = Shard(self.config)
        self.log.load(again)
        check_loaded(self.shard, again)
