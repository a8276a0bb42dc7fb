"""What an actor of a member uses of a broker, of the laboratory's with the real handlers."""

from __future__ import annotations

from collections.abc import Iterable

from coterie.coordinator.consumer.state import TopicIdPartition
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.state import Group
from coterie.laboratory.broker_actor import Durability
from coterie.laboratory.node.broker import LaboratoryBroker


class CoordinatorView:
    """What a member's actor uses of its broker, in the place of a `BrokerActor`."""

    def __init__(self, broker: LaboratoryBroker) -> None:
        self.broker = broker

    @property
    def up(self) -> bool:
        return self.broker.up

    @property
    def incarnation(self) -> int:
        return self.broker.incarnation

    @property
    def durability(self) -> Durability:
        return self.broker.durability

    @property
    def partitions(self) -> dict[str, int]:
        return {name: count for name, count in self.broker.node.topics.partition_counts().items() if name[0] != "_"}

    @property
    def shard(self) -> CoordinatorView:
        return self

    @property
    def groups(self) -> dict[str, Group]:
        """Those of the classic protocol, of `loaded_groups`."""
        return {group_id: group for group_id, group in self.loaded_groups().items() if isinstance(group, Group)}

    def loaded_groups(self) -> dict[str, AnyGroup]:
        """In the partitions that are loaded; none of a process that has ended. To see them writes what was decided, of which
        the process may end."""
        broker = self.broker
        loaded: list[AnyGroup] = []
        broker.scheduler.run(lambda: loaded.extend(broker.node.groups.loaded_groups()))
        return {group.group_id: group for group in loaded}

    def group(self, group_id: str) -> Group | None:
        return self.groups.get(group_id)

    def by_id(self, partitions: Iterable[tuple[str, int]]) -> set[TopicIdPartition]:
        """The partitions with the ids of their topics."""
        by_name = self.broker.node.topics.by_name
        return {(by_name[topic].topic_id, partition) for topic, partition in partitions}
