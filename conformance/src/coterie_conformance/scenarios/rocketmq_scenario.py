"""Scenarios of RocketMQ's rebalance (tests/spec/rocketmq): clients, what their brokers know, every step that follows.

== worked example of A2
topic t 8
client c1 t
advance 30000
owners
"""

from __future__ import annotations

from coterie.laboratory.deliveries import Reader
from coterie.laboratory.scripts.rocketmq_actor import RocketMQActor, partition_of
from coterie.laboratory.scripts.rocketmq_brokers import SimulatedCluster
from coterie.rocketmq.allocation import MessageQueue
from coterie.rocketmq.client import ClientConfig
from coterie.rocketmq.operations import (
    Consumed,
    Drop,
    Effect,
    FetchRoute,
    FindConsumers,
    Heartbeat,
    Lock,
    PersistOffsets,
    PullFrom,
    StartPulling,
    Unlock,
    Unregister,
)
from coterie_conformance.rocketmq.strategies import STRATEGIES
from coterie_conformance.scenarios.script_scenario import GROUP, RECORDS_PER_S, ScriptScenario


class RocketMQScenario(ScriptScenario):
    """Brokers and clients. Before any topic: ``brokers N``; by default there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = SimulatedCluster(self.world, GROUP, 1)
        self.verbs |= {
            "brokers": self._brokers,
            "topic": lambda words, _: self.cluster.create_topic(words[0], int(words[1])),
            "client": self._client,
            "vanish": lambda words, _: self.consumers[words[0]].vanish(),
            "notices": self._notices,
            "quiet": self._quiet,
            "owners": self._owners,
            "locks": self._locks,
            "offsets": self._offsets,
            "counts": self._counts,
        }

    def effect_text(self, effect: Effect) -> str:
        return effect_text(effect)

    def _quiet(self, words: list[str], _: dict[str, str]) -> None:
        """From here on the trace has only effects that change the consumed queues."""
        self.shown_effects = (Drop, Lock, StartPulling, Unlock, Unregister)

    def _brokers(self, words: list[str], _: dict[str, str]) -> None:
        self.cluster = SimulatedCluster(self.world, GROUP, int(words[0]))

    def _client(self, words: list[str], options: dict[str, str]) -> None:
        """NAME TOPIC... with orderly=yes, strategy=AVG_BY_CIRCLE."""
        config = ClientConfig(
            GROUP,
            words[0],
            tuple(words[1:]),
            orderly=options.get("orderly") == "yes",
            strategy=STRATEGIES[options.get("strategy", "AVG")],
        )
        reader = Reader(self.world, RECORDS_PER_S, self.delivered)
        actor = RocketMQActor(self.world, self.cluster, config, self.ownership, reader, self.log)
        self.consumers[words[0]] = actor
        actor.start()

    def _notices(self, words: list[str], _: dict[str, str]) -> None:
        """on, or off: the brokers' notices of changes are lost."""
        for broker in self.cluster.brokers.values():
            broker.sends_notices = words[0] == "on"

    def _every_queue(self) -> list[MessageQueue]:
        return [queue for route in self.cluster.routes.values() for queue in route]

    def _owners(self, words: list[str], _: dict[str, str]) -> None:
        readers = self.readers()
        for queue in self._every_queue():
            self.trace.append(f"{_short(queue)}: {' and '.join(readers.get(partition_of(queue), ['nobody']))}")

    def _locks(self, words: list[str], _: dict[str, str]) -> None:
        """The holder of a queue's lock, and the clients that consume it under a valid lock."""
        for queue in self._every_queue():
            holder = self.cluster.of(queue).locks.holder(GROUP, queue, self.world.now_ms)
            consuming = [
                name
                for name, actor in sorted(self.consumers.items())
                if actor.alive and actor.machine.may_consume(queue, self.world.now_ms)
            ]
            self.trace.append(
                f"{_short(queue)}: lock of {holder or 'nobody'}, consumed by {','.join(consuming) or '-'}"
            )

    def _offsets(self, words: list[str], _: dict[str, str]) -> None:
        for queue in self._every_queue():
            self.trace.append(f"{_short(queue)}: {self.cluster.of(queue).offsets.get(queue, 'none')}")

    def _counts(self, words: list[str], _: dict[str, str]) -> None:
        for name, actor in sorted(self.consumers.items()):
            m = actor.machine
            self.trace.append(f"{name}: rebalances={m.rebalances} notifications={m.notifications}")


def effect_text(effect: Effect) -> str:
    """An effect in a few words."""
    match effect:
        case FetchRoute(topic):
            return f"which queues has {topic}?"
        case Heartbeat():
            return "heartbeat to every broker"
        case Unregister():
            return "goodbye to every broker"
        case FindConsumers():
            return "who is in the group?"
        case Lock(queues):
            return f"lock {_all(queues)}"
        case Unlock(queues):
            return f"unlock {_all(queues)}"
        case PullFrom(queue):
            return f"where does {_short(queue)} begin?"
        case StartPulling(queue, offset):
            return f"begin {_short(queue)} at {offset}"
        case Drop(queue):
            return f"drop {_short(queue)}"
        case Consumed():
            return "how far are we?"
        case PersistOffsets(offsets):
            return "persist " + " ".join(f"{_short(queue)}={offset}" for queue, offset in offsets.items())


def _short(queue: MessageQueue) -> str:
    """Without the broker where there is only one."""
    where = "" if queue.broker_name == "broker-0" else f"@{queue.broker_name}"
    return f"{queue.topic}{where}-q{queue.queue_id}"


def _all(queues: tuple[MessageQueue, ...]) -> str:
    return " ".join(_short(queue) for queue in queues)
