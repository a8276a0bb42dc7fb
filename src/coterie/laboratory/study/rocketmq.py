"""RocketMQ's client-side rebalance in the study; concurrent or orderly."""

from __future__ import annotations

from coterie.laboratory.deliveries import Reader, TopicPartition
from coterie.laboratory.members.reading_member import TOPIC
from coterie.laboratory.scripts.rocketmq_actor import RocketMQActor, partition_of
from coterie.laboratory.scripts.rocketmq_brokers import SimulatedCluster
from coterie.laboratory.study.group import Load, StudyGroup
from coterie.rocketmq.client import ClientConfig

GROUP = "g"


class RocketMQGroup(StudyGroup[RocketMQActor]):
    """One group; its queues are spread over the setting's brokers."""

    def __init__(self, load: Load, members: int) -> None:
        super().__init__(load)
        self.cluster = SimulatedCluster(load.world, GROUP, load.setting.brokers)
        self.cluster.create_topic(TOPIC, load.partitions)
        for broker in self.cluster.brokers.values():
            broker.on_removed = self._removed
        self._killed_ms: dict[str, int] = {}
        self._closed: set[str] = set()
        self._lives: dict[str, int] = {}
        self._rebalances = 0

    def join(self, name: str) -> None:
        """Starts a client of that name, or its next life."""
        load, s = self.load, self.load.setting
        if name in self._members:
            self._rebalances += self._members[name].machine.rebalances
        lives = self._lives[name] = self._lives.get(name, 0) + 1
        client_id = f"10.0.0.1@{name}#{lives}"
        config = ClientConfig(
            GROUP, client_id, (TOPIC,), orderly=s.orderly, persist_interval_ms=s.auto_commit_interval_ms
        )
        reader = Reader(load.world, load.records_per_s, load.delivered)
        actor = RocketMQActor(load.world, self.cluster, config, load.meter, reader)
        self._members[name] = actor
        actor.start()

    def leave(self, name: str) -> None:
        self._closed.add(self._members[name].name)
        self._members[name].leave()

    def kill(self, name: str) -> None:
        self._killed_ms[self._members[name].name] = self.load.world.now_ms
        self._members[name].crash()

    def vanish(self, name: str) -> None:
        self._killed_ms[self._members[name].name] = self.load.world.now_ms
        self._members[name].vanish()

    def pause(self, name: str, ms: int) -> None:
        self._members[name].pause(ms)
        self.slow(name, ms)

    def cut(self, name: str, ms: int) -> None:
        self._members[name].cut(ms)
        self.slow(name, ms)

    def slow(self, name: str, ms: int) -> None:
        self.still(self.actor_name(name), self._members[name].owned, ms)

    def deaf(self, ms: int) -> None:
        """For ``ms`` no broker sends notices of changes."""
        for broker in self.cluster.brokers.values():
            broker.sends_notices = False

        def again() -> None:
            for broker in self.cluster.brokers.values():
                broker.sends_notices = True

        self.load.world.after(ms, again)

    def _removed(self, client_id: str) -> None:
        """By the first broker that does."""
        killed_ms = self._killed_ms.pop(client_id, None)
        if killed_ms is not None:
            self.load.removals.noticed(killed_ms, self.load.world.now_ms)
            self._closed.add(client_id)
        elif client_id not in self._closed:
            self.load.removals.false_alarms += 1

    def actor_name(self, name: str) -> str:
        return self._members[name].name if name in self._members else name

    def partitions(self) -> list[TopicPartition]:
        return [partition_of(queue) for queue in self.cluster.routes[TOPIC]]

    def rebalances(self) -> int:
        return self._rebalances + sum(m.machine.rebalances for m in self._members.values())

    def traffic(self) -> tuple[int, int, dict[int, int]]:
        t = self.cluster.traffic
        return t.messages, t.bytes, t.by_second
