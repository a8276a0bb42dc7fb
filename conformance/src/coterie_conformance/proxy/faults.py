"""The fault hooks of a proxy on a cluster that runs, each shown once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from coterie.client import TopicPartition
from coterie.client.blocking import BlockingAdmin, BlockingConsumer
from coterie.testing import LocalProxy

TOPIC, PARTITIONS = "struck", 2
FIRST = TopicPartition(TOPIC, 0)
DELAY_MS, WAIT_S = 1000, 30.0
Consume = BlockingConsumer[bytes, bytes]


def check_faults(upstream: str) -> Iterator[tuple[str, str]]:
    """Name, and what is wrong, of each hook."""
    with BlockingAdmin({"bootstrap.servers": upstream}) as admin:
        admin.create_topic(TOPIC, PARTITIONS, replication_factor=1)
    for name, strike in STRIKES.items():
        word = name.split()[0]
        with LocalProxy(upstream) as proxy:
            settings = {"bootstrap.servers": proxy.bootstrap_servers, "group.id": f"struck-{word}", "client.id": word}
            with BlockingConsumer(settings | {"auto.offset.reset": "earliest"}) as consumer:
                consumer.subscribe([TOPIC])
                _assigned(consumer)
                yield f"fault: {name}", "" if strike(proxy, consumer) else "it had no effect"


def _assigned(consumer: Consume) -> None:
    end_s = time.monotonic() + WAIT_S
    while not consumer.assignment() and time.monotonic() < end_s:
        consumer.poll(100)


def _commit_takes_s(consumer: Consume) -> float:
    began_s = time.monotonic()
    consumer.commit({(TOPIC, 0): 0})
    return time.monotonic() - began_s


def _fail(proxy: LocalProxy, consumer: Consume) -> bool:
    before = proxy.requested("OffsetCommit")
    proxy.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2, group="struck-fail")
    consumer.commit({(TOPIC, 0): 0})
    return proxy.requested("OffsetCommit") - before == 3


def _delay(proxy: LocalProxy, consumer: Consume) -> bool:
    proxy.delay("OffsetCommit", DELAY_MS, times=1)
    return _commit_takes_s(consumer) >= DELAY_MS / 1000


def _lose(proxy: LocalProxy, consumer: Consume) -> bool:
    """The commit is made, its response never comes: the heartbeat behind it has none either."""
    with BlockingAdmin({"bootstrap.servers": proxy.bootstrap_servers}) as admin:
        proxy.lose_response("OffsetCommit", times=1)
        consumer.commit_async({(TOPIC, 0): 1})
        end_s = time.monotonic() + WAIT_S
        while admin.list_consumer_group_offsets("struck-lose").get(FIRST) != 1 and time.monotonic() < end_s:
            consumer.poll(100)
        return admin.list_consumer_group_offsets("struck-lose").get(FIRST) == 1


def _cut(proxy: LocalProxy, consumer: Consume) -> bool:
    before = proxy.requested("OffsetCommit")
    proxy.cut("OffsetCommit", client_id="cut", times=1)
    consumer.commit({(TOPIC, 0): 0})
    return proxy.requested("OffsetCommit") - before == 2


def _drop(proxy: LocalProxy, consumer: Consume) -> bool:
    dropped = proxy.drop_connections("drop")
    consumer.commit({(TOPIC, 0): 0})
    return dropped > 0


def _hold(proxy: LocalProxy, consumer: Consume) -> bool:
    with proxy.hold("OffsetCommit", group="struck-hold") as rule:
        consumer.commit_async({(TOPIC, 0): 0})
        end_s = time.monotonic() + WAIT_S
        while not rule.held and time.monotonic() < end_s:
            consumer.poll(50)
        is_held = bool(rule.held)
    consumer.commit({(TOPIC, 0): 0})
    return is_held


# The first word is the client's id.
STRIKES: dict[str, Callable[[LocalProxy, Consume], bool]] = {
    "fail two commits": _fail,
    "delay a commit": _delay,
    "lose the response to a commit": _lose,
    "cut the connection of a commit": _cut,
    "drop all connections of a client": _drop,
    "hold a commit": _hold,
}
