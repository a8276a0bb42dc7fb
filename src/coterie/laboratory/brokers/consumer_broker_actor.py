"""The laboratory's broker with groups of the consumer protocol: it knows its topics, and checks these groups as well."""

from __future__ import annotations

from typing import Any

from coterie.coordinator.consumer.image import TopicImage, TopicsImage
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.events import OffsetStored
from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.coordinator.shard import Decision, Step
from coterie.coordinator.state import Phase
from coterie.laboratory.brokers.broker_actor import BrokerActor, BrokerCommand, Response
from coterie.laboratory.group_checkers import EpochChecker
from coterie.laboratory.world import World
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest


def topic_id_of(name: str) -> bytes:
    """The topic id of a name: the name itself, filled up to 16 bytes."""
    return name.encode().ljust(16, b".")


class ConsumerBrokerActor(BrokerActor):
    """``epochs_raised`` counts the group epochs. ``options``: those of `BrokerActor`."""

    def __init__(self, world: World, config: CoordinatorConfig, partitions: dict[str, int], **options: Any) -> None:
        self.topics = TopicsImage()
        self.epochs_raised = 0
        self._commit: OffsetCommitRequest | None = None
        for topic, count in partitions.items():
            self.set_partitions(topic, count)
        super().__init__(world, config, partitions, **options)

    def set_partitions(self, topic: str, count: int) -> None:
        """Creates the topic, or gives it more partitions."""
        image = TopicImage(topic, topic_id_of(topic), count)
        version = self.topics.version + 1
        created = self.topics.created_version if topic in self.topics.topics else version
        self.topics = TopicsImage({**self.topics.topics, topic: image}, version, created)

    def start(self) -> None:
        self.epochs = EpochChecker()
        super().start()

    def context(self) -> Context:
        return Context(self.world.now_ms, topics=self.topics)

    def submit(self, command: BrokerCommand, ctx: Context, response: Response) -> None:
        ctx.topics = self.topics
        if getattr(command, "member_id", None) == "":
            ctx.fresh_id = self.world.fresh_id()
        self._commit = command if isinstance(command, OffsetCommitRequest) else None
        super().submit(command, ctx, response)

    def _committed(self, decision: Decision, steps: list[Step]) -> None:
        for step in steps:
            self.epochs.check(step)
        before = {type(step.event).__name__ for step in steps}
        for step in steps:
            if self._starts_anew(step, before):
                self.generations.forget(step.group_id)
        self.epochs_raised += "GroupEpochStored" in before or "StreamsEpochStored" in before
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
        """A commit that is accepted is never one of a partition that another member has."""
        request = self._commit
        if request is None:
            return
        for event in decision.outcome.events:
            if isinstance(event, OffsetStored):
                partition = (topic_id_of(event.topic), event.partition)
                owner = group.owners.get(partition, request.member_id)
                assert owner == request.member_id, (
                    f"{request.member_id} committed {event.topic}-{event.partition}, which {owner} has"
                )
