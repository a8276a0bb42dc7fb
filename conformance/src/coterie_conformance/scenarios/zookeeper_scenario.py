"""Scenarios of the high-level consumer (tests/spec/zookeeper): what happens to a group, and every step that follows.

== worked example of A3
topic t 5
consumer C1 t:2
    @0 C1: create ids/C1 {"t":2}
advance 10000
owners
"""

from __future__ import annotations

from coterie.laboratory.deliveries import Reader
from coterie.laboratory.scripts.zookeeper_actor import ZooKeeperActor
from coterie.laboratory.scripts.zookeeper_server import ZooKeeperServer
from coterie.zookeeper import paths
from coterie.zookeeper.consumer import ConnectorConfig
from coterie.zookeeper.operations import (
    INVALID_OFFSET,
    ConsumedOffsets,
    Create,
    Delete,
    Effect,
    GiveUp,
    List,
    NodeExists,
    Read,
    ReadEach,
    StartFetchers,
    StopFetchers,
    Write,
)
from coterie_conformance.scenarios.script_scenario import GROUP, RECORDS_PER_S, ScriptScenario

_FOREVER_MS = 10**9  # the scenario's own session


class ZooKeeperScenario(ScriptScenario):
    """A ZooKeeper, a broker that is registered in it, consumers."""

    def __init__(self) -> None:
        super().__init__()
        self.server = ZooKeeperServer(self.world)
        self._admin = self.server.connect(_FOREVER_MS, lambda _: None)
        self.verbs |= {
            "broker": self._broker,
            "broker-gone": self._broker_gone,
            "topic": self._topic,
            "consumer": self._consumer,
            "commit": self._commit,
            "node": self._node,
            "offset": self._offset,
            "owners": self._owners,
            "offsets": self._offsets,
            "counts": self._counts,
        }
        self._broker(["1"], {})

    def effect_text(self, effect: Effect) -> str:
        return effect_text(effect)

    def _broker(self, words: list[str], _: dict[str, str]) -> None:
        address = paths.broker_address("127.0.0.1", 9092, self.world.now_ms)
        self.server.apply(self._admin, Create(paths.broker(int(words[0])), address))

    def _broker_gone(self, words: list[str], _: dict[str, str]) -> None:
        self.server.apply(self._admin, Delete(paths.broker(int(words[0]))))

    def _topic(self, words: list[str], _: dict[str, str]) -> None:
        """Makes it, or gives it more partitions."""
        replicas = {p: [1] for p in range(int(words[1]))}
        self.server.apply(self._admin, Write(paths.topic(words[0]), paths.partitions(replicas)))

    def _node(self, words: list[str], _: dict[str, str]) -> None:
        """Somebody else's ephemeral node in the group: owners/t/0 X-0."""
        path = f"{paths.CONSUMERS}/{GROUP}/{words[0]}"
        if words[1] == "gone":
            self.server.apply(self._admin, Delete(path))
            return
        try:
            self.server.apply(self._admin, Create(path, words[1]))
        except NodeExists:
            self.trace.append("is there already")

    def _consumer(self, words: list[str], options: dict[str, str]) -> None:
        """NAME TOPIC:THREADS... with session=, commit=, backoff= in ms, retries=, auto=no."""
        threads = {topic: int(count) for topic, _, count in (w.partition(":") for w in words[1:])}
        config = ConnectorConfig(
            GROUP,
            words[0],
            threads,
            rebalance_backoff_ms=int(options.get("backoff", 2_000)),
            rebalance_max_retries=int(options.get("retries", 4)),
            auto_commit_enable=options.get("auto") != "no",
            auto_commit_interval_ms=int(options.get("commit", 60_000)),
        )
        session_ms = int(options.get("session", 6_000))
        reader = Reader(self.world, RECORDS_PER_S, self.delivered)
        actor = ZooKeeperActor(
            self.world,
            self.server,
            config,
            session_timeout_ms=session_ms,
            ownership=self.ownership,
            reader=reader,
            log=self.log,
        )
        self.consumers[words[0]] = actor
        actor.start()

    def _commit(self, words: list[str], _: dict[str, str]) -> None:
        """The user's own commit."""
        self.consumers[words[0]].machine.commit()
        self.consumers[words[0]].pump()

    def _offset(self, words: list[str], _: dict[str, str]) -> None:
        """Somebody writes an offset's node: t/0 [WHAT], else without data."""
        path = f"{paths.CONSUMERS}/{GROUP}/offsets/{words[0]}"
        self.server.apply(self._admin, Write(path, "".join(words[1:])))

    def _owners(self, words: list[str], _: dict[str, str]) -> None:
        """The owners of partitions in ZooKeeper, and their readers."""
        reads = {f"{topic}/{partition}": names for (topic, partition), names in self.readers().items()}
        base = f"{paths.CONSUMERS}/{GROUP}/owners"
        owned: dict[str, str] = {}
        for name in self._names(base):
            for number in self._names(f"{base}/{name}"):
                owned[f"{name}/{number}"] = self._data(f"{base}/{name}/{number}")
        for where in sorted({*owned, *reads}):
            readers = ",".join(reads.get(where, ["nobody"]))
            self.trace.append(f"{where}: owner {owned.get(where, 'nobody')}, read by {readers}")

    def _offsets(self, words: list[str], _: dict[str, str]) -> None:
        base = f"{paths.CONSUMERS}/{GROUP}/offsets"
        for topic in self._names(base):
            for partition in self._names(f"{base}/{topic}"):
                self.trace.append(f"{topic}/{partition}: {self._data(f'{base}/{topic}/{partition}')}")

    def _counts(self, words: list[str], _: dict[str, str]) -> None:
        for name, actor in sorted(self.consumers.items()):
            m = actor.machine
            self.trace.append(f"{name}: rebalances={m.rebalances} attempts={m.attempts} conflicts={m.conflicts}")
        self.trace.append(f"events={self.server.events} expirations={self.server.expirations}")

    def _names(self, path: str) -> list[str]:
        names = self.server.apply(self._admin, List(path))
        assert isinstance(names, list)
        return names

    def _data(self, path: str) -> str:
        node = self.server.apply(self._admin, Read(path))
        return getattr(node, "data", "")


def effect_text(effect: Effect) -> str:
    """An effect in a few words."""
    match effect:
        case Create(path, data):
            return f"create {_short(path)} {_plain(data)}"
        case Write(path, data):
            return f"write {_short(path)} {data}"
        case Delete(path):
            return f"delete {_short(path)}"
        case Read(path, watch):
            return f"read {_short(path)}" + (" and watch" if watch else "")
        case ReadEach(nodes):
            return "read " + " ".join(_short(path) for path in nodes)
        case List(path, watch):
            return f"list {_short(path)}" + (" and watch" if watch else "")
        case StopFetchers():
            return "stop fetchers, clear queues"
        case ConsumedOffsets():
            return "how far are we?"
        case StartFetchers(infos):
            fetchers = " ".join(f"{i.topic}/{i.partition}->{i.thread_id}{_from(i.offset)}" for i in infos)
            return f"start fetchers {fetchers or 'for nothing'}"
        case GiveUp(message):
            return f"GIVE UP: {message}"


def _from(offset: int) -> str:
    return "" if offset == INVALID_OFFSET else f"@{offset}"


def _short(path: str) -> str:
    return path.removeprefix(f"{paths.CONSUMERS}/{GROUP}/")


def _plain(data: str) -> str:
    """A registration without what is the same everywhere."""
    if not data.startswith("{"):
        return data
    return "{" + ",".join(f"{topic}:{count}" for topic, count in paths.subscription_of(data).items()) + "}"
