"""The ZooKeeper high-level consumer in the study."""

from __future__ import annotations

from coterie.laboratory.deliveries import Reader
from coterie.laboratory.members.reading_member import TOPIC
from coterie.laboratory.scripts.zookeeper_actor import ZooKeeperActor
from coterie.laboratory.scripts.zookeeper_server import Session, ZooKeeperServer
from coterie.laboratory.study.group import Load, StudyGroup
from coterie.zookeeper import paths
from coterie.zookeeper.consumer import ConnectorConfig
from coterie.zookeeper.operations import Create, Write

GROUP = "g"
_FOREVER_MS = 10**12


class ZooKeeperGroup(StudyGroup[ZooKeeperActor]):
    """One group on one ZooKeeper. Its session timeout is the setting's."""

    def __init__(self, load: Load, members: int) -> None:
        super().__init__(load)
        self.server = ZooKeeperServer(load.world)
        self.server.on_expired = self._expired
        admin = self.server.connect(_FOREVER_MS, lambda _: None)
        self.server.apply(admin, Create(paths.broker(1), paths.broker_address("broker-1", 9092, 0)))
        replicas = {p: [1] for p in range(load.partitions)}
        self.server.apply(admin, Write(paths.topic(TOPIC), paths.partitions(replicas)))
        self._killed_ms: dict[int, int] = {}
        self._rebalances = self._failures = 0

    def join(self, name: str) -> None:
        """Starts a consumer of that name, or its next life."""
        load, s = self.load, self.load.setting
        if name in self._members:
            self._keep(self._members[name])
        config = ConnectorConfig(
            GROUP, self.actor_name(name), {TOPIC: 1}, auto_commit_interval_ms=s.auto_commit_interval_ms
        )
        reader = Reader(load.world, load.records_per_s, load.delivered)
        actor = ZooKeeperActor(load.world, self.server, config, s.session_timeout_ms, load.meter, reader)
        self._members[name] = actor
        actor.start()

    def _keep(self, former: ZooKeeperActor) -> None:
        """Adds the counts of a former process of the same name."""
        self._rebalances += former.machine.rebalances
        self._failures += len(former.failures)

    def leave(self, name: str) -> None:
        self._members[name].leave()

    def kill(self, name: str) -> None:
        self._killed_ms[self._members[name].session_number] = self.load.world.now_ms
        self._members[name].crash()

    def vanish(self, name: str) -> None:
        """ZooKeeper keeps a session whose connection is closed: it makes no difference."""
        self.kill(name)

    def pause(self, name: str, ms: int) -> None:
        self._members[name].pause(ms)
        self.still(self.actor_name(name), self._members[name].owned, ms)

    def slow(self, name: str, ms: int) -> None:
        self.still(self.actor_name(name), self._members[name].owned, ms)

    def cut(self, name: str, ms: int) -> None:
        self._members[name].cut(ms)

    def deaf(self, ms: int) -> None:
        """A watch is kept by the session: it cannot be lost alone."""

    def _expired(self, session: Session) -> None:
        killed_ms = self._killed_ms.pop(session.number, None)
        if killed_ms is None:
            self.load.removals.false_alarms += 1
        else:
            self.load.removals.noticed(killed_ms, self.load.world.now_ms)

    def actor_name(self, name: str) -> str:
        return f"{GROUP}_{name}"

    def rebalances(self) -> int:
        return self._rebalances + sum(m.machine.rebalances for m in self._members.values())

    def gave_up(self) -> int:
        return self._failures + sum(len(m.failures) for m in self._members.values())

    def traffic(self) -> tuple[int, int, dict[int, int]]:
        """The requests so far, with the pings of the members that are alive."""
        pings = [m.pings() for m in self._members.values() if m.alive]
        messages, size = sum(count for count, _ in pings), sum(size for _, size in pings)
        t = self.server.traffic
        return t.messages + messages, t.bytes + size, t.by_second
