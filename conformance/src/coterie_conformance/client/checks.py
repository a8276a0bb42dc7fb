"""Our client against a real broker, whichever it is: what each part promises, as checks that are run on coterie by the tests
and on Apache Kafka by `./run conformance`. Names of topics and groups begin with a prefix, so that checks do not meet.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from coterie.client import Admin, Consumer, KafkaError, NewTopic, Producer, RebalanceListener, TopicPartition
from coterie.wire.errors import ErrorCode

PATIENCE_S = 45.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CHECKED_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
HEADERS = (("h", b"x"), ("n", None))


@dataclass(frozen=True, slots=True)
class BrokerUnderTest:
    """The broker that a check runs against; ``prefix`` keeps its topics and groups apart from other checks'."""

    bootstrap_servers: str
    prefix: str

    def name(self, suffix: str) -> str:
        return f"{self.prefix}-{suffix}"

    def consumer(self, group: str | None, **more: Any) -> Consumer:
        """A consumer with short timeouts; ``more`` are further settings, with `_` for `.` in their names."""
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": group and self.name(group)}
        quick = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": 200, "session.timeout.ms": 6_000}
        given = {key.replace("_", "."): value for key, value in more.items()}
        return Consumer(settings | quick | {"metadata.max.age.ms": 500, "fetch.max.wait.ms": 100} | given)

    def producer(self, **more: Any) -> Producer:
        given = {key.replace("_", "."): value for key, value in more.items()}
        return Producer({"bootstrap.servers": self.bootstrap_servers} | given)

    def admin(self) -> Admin:
        return Admin({"bootstrap.servers": self.bootstrap_servers})

    async def topic(self, suffix: str, partitions: int = 1) -> str:
        """A new topic, once its partitions have leaders."""
        name = self.name(suffix)
        async with self.admin() as admin:
            await admin.create_topic(name, partitions)

            async def led() -> bool:
                info = (await admin.describe_topics([name])).get(name)
                return info is not None and [p.leader is not None for p in info.partitions] == [True] * partitions

            await until(led, f"{name} has leaders")
        return name


async def until(done: Callable[[], Awaitable[bool]], what: str, patience_s: float = PATIENCE_S) -> None:
    """Awaits ``done`` every 20 ms until it is true. Raises AssertionError, which names ``what``, after
    ``patience_s``."""
    deadline_s = time.monotonic() + patience_s
    while not await done():
        assert time.monotonic() < deadline_s, f"not within {patience_s:g} s: {what}"
        await asyncio.sleep(0.02)


async def read(consumer: Consumer, count: int) -> list[Any]:
    """The next records, at least so many."""
    received: list[Any] = []

    async def once() -> bool:
        received.extend(r for records in (await consumer.poll(100)).values() for r in records)
        return len(received) >= count

    await until(once, f"{count} records")
    return received


async def share(consumers: Iterable[Consumer], sizes: list[int]) -> None:
    """Polls until the consumers have so many partitions each."""
    crew = list(consumers)

    async def once() -> bool:
        await asyncio.gather(*(c.poll(20) for c in crew))
        return sorted(len(c.assignment()) for c in crew) == sorted(sizes)

    await until(once, f"the group shares its partitions as {sizes}")


async def records_and_compression(broker: BrokerUnderTest) -> None:
    """Keys, values, headers, timestamps and every codec come back as they went."""
    topic = await broker.topic("records", 3)
    for codec in CODECS:
        async with broker.producer(compression_type=codec) as producer:
            for n in range(50):
                value = b"%s-%d" % (codec.encode(), n)
                await producer.send(topic, value, b"k%d" % n, timestamp_ms=1_000 + n, headers=HEADERS)
            await producer.send(topic, None, b"tombstone")
    async with broker.consumer(None) as consumer:
        await consumer.assign([(topic, p) for p in range(3)])
        records = await read(consumer, len(CODECS) * 51)
    assert len(records) == len(CODECS) * 51
    values = {r.value for r in records}
    assert values == {b"%s-%d" % (c.encode(), n) for c in CODECS for n in range(50)} | {None}
    sample = next(r for r in records if r.value == b"zstd-7")
    assert (sample.key, sample.timestamp_ms, sample.headers) == (b"k7", 1_007, HEADERS)


async def groups_with_every_assignor(broker: BrokerUnderTest) -> None:
    """Two members share, a third comes and goes, cooperatively where that is the assignor's way."""
    topic = await broker.topic("shared", 6)
    for assignor in CHECKED_ASSIGNORS:
        group = f"by-{assignor}"
        revoked: list[TopicPartition] = []

        class Listener(RebalanceListener):
            def __init__(self, revocations: list[TopicPartition]) -> None:
                self.revocations = revocations

            def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
                self.revocations.extend(partitions)

        settings = {"partition_assignment_strategy": assignor}
        one, two, three = (broker.consumer(group, **settings) for _ in range(3))
        one.subscribe([topic], Listener(revoked))
        await share([one], [6])
        two.subscribe([topic])
        await share([one, two], [3, 3])
        assert len(revoked) == (3 if assignor == "cooperative-sticky" else 6), f"{assignor}: {revoked}"
        three.subscribe([topic])
        await share([one, two, three], [2, 2, 2])
        await two.close()
        await share([one, three], [3, 3])
        await one.close()
        await three.close()


async def mixed_assignors(broker: BrokerUnderTest) -> None:
    """Members that list range and cooperative-sticky, in either order, are one eager group."""
    topic = await broker.topic("mixed", 4)
    one = broker.consumer("mixed", partition_assignment_strategy="cooperative-sticky,range")
    two = broker.consumer("mixed", partition_assignment_strategy="range")
    one.subscribe([topic])
    two.subscribe([topic])
    await share([one, two], [2, 2])
    await one.close()
    await two.close()


async def patterns(broker: BrokerUnderTest) -> None:
    """Topics that match a pattern, now and later."""
    first = await broker.topic("pattern-a")
    async with broker.consumer("pattern") as consumer:
        consumer.subscribe(re.compile(re.escape(broker.name("pattern-")) + "[a-z]"))
        await share([consumer], [1])
        second = await broker.topic("pattern-b", 2)
        await share([consumer], [3])
        assert consumer.subscription() == {first, second}


async def commits_and_positions(broker: BrokerUnderTest) -> None:
    """Sync and async commits, committed offsets, seeking by offset and by time, lag."""
    topic = await broker.topic("positions")
    where = (topic, 0)
    async with broker.producer() as producer:
        for n in range(100):
            await producer.send(topic, b"%d" % n, timestamp_ms=10_000 + n * 10)
    async with broker.consumer("positions", enable_auto_commit=False) as consumer:
        consumer.subscribe([topic])
        await read(consumer, 100)
        await consumer.commit({where: 40})
        await consumer.commit_async({where: 41})
        assert await consumer.committed([where]) == {where: 41}
        assert consumer.lag() == {where: 0}
        await consumer.seek_to_timestamp(10_500)
        assert consumer.position(where) == 50
        assert (await read(consumer, 1))[0].offset == 50
        await consumer.seek_to_beginning()
        assert (await read(consumer, 1))[0].offset == 0
        assert await consumer.end_offsets([where]) == {where: 100}
    async with broker.consumer("positions") as again:
        again.subscribe([topic])
        assert (await read(again, 1))[0].offset == 41


async def static_members(broker: BrokerUnderTest) -> None:
    """Back under its group.instance.id within the session, a member has its partitions, and there was no rebalance."""
    topic = await broker.topic("static", 4)
    one = broker.consumer("static", group_instance_id="one")
    two = broker.consumer("static", group_instance_id="two")
    one.subscribe([topic])
    two.subscribe([topic])
    await share([one, two], [2, 2])
    generation, held = one.generation, two.assignment()
    await two.close()
    two = broker.consumer("static", group_instance_id="two")
    two.subscribe([topic])
    await share([one, two], [2, 2])
    assert (one.generation, two.assignment()) == (generation, held)
    await one.close()
    await two.close()


async def transactions(broker: BrokerUnderTest) -> None:
    """Records and offsets of committed transactions count, those of aborted ones do not, and a newer producer fences."""
    source, target = await broker.topic("source"), await broker.topic("target")
    async with broker.producer() as producer:
        for n in range(10):
            await producer.send(source, b"%d" % n)
    reader = broker.consumer("mover", enable_auto_commit=False)
    reader.subscribe([source])
    taken = await read(reader, 10)
    settings = {"transactional_id": broker.name("mover"), "default_api_timeout_ms": 40_000}
    async with broker.producer(**settings) as mover:
        await mover.init_transactions()
        for n, record in enumerate(taken):
            mover.begin_transaction()
            await mover.send_and_wait(target, record.value)
            await mover.send_offsets_to_transaction({(source, 0): record.offset + 1}, reader.group_metadata())
            await (mover.abort_transaction() if n % 3 == 2 else mover.commit_transaction())
        async with broker.producer(**settings) as newer:
            await newer.init_transactions()
            mover.begin_transaction()
            await mover.send(target, b"late")
            (fenced,) = await asyncio.gather(mover.commit_transaction(), return_exceptions=True)
            assert isinstance(fenced, KafkaError), f"the older producer was not fenced: {fenced}"
            assert fenced.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH), fenced
    async with broker.consumer(None, isolation_level="read_committed") as check:
        await check.assign([(target, 0)])
        values = [r.value for r in await read(check, 7)]
        assert values == [b"%d" % n for n in range(10) if n % 3 != 2], values
        assert await check.poll(300) == {}
    assert (await reader.committed([(source, 0)]))[TopicPartition(source, 0)] == 10
    await reader.close()


async def administration(broker: BrokerUnderTest) -> None:
    """Topics, partitions, settings, groups, offsets and records, with a future per key."""
    one, two = broker.name("admin-one"), broker.name("admin-two")
    async with broker.admin() as admin:
        created = admin.each.create_topics([NewTopic(one, 2), NewTopic(two, 1, {"retention.ms": "7777"})])
        await asyncio.gather(*created.values())
        exists = await asyncio.gather(*admin.each.create_topics([NewTopic(one, 2)]).values(), return_exceptions=True)
        assert isinstance(exists[0], KafkaError)
        assert exists[0].code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert (await admin.describe_configs(two))["retention.ms"].value == "7777"
        await admin.incremental_alter_configs(two, {"retention.ms": "8888"})

        async def altered() -> bool:
            return (await admin.describe_configs(two))["retention.ms"].value == "8888"

        await until(altered, "the setting is altered")
        await admin.create_partitions(one, 3)

        async def grown() -> bool:
            return len(await admin.partitions([one])) == 3

        await until(grown, "the topic has grown")
        group = broker.name("simple")
        await admin.alter_consumer_group_offsets(group, {(one, 0): 3, (one, 1): 4})
        assert await admin.list_consumer_group_offsets(group) == {(one, 0): 3, (one, 1): 4}
        await admin.delete_consumer_group_offsets(group, [(one, 0)])
        assert await admin.list_consumer_group_offsets(group) == {(one, 1): 4}
        await admin.delete_consumer_group(group)
        async with broker.consumer("removed", group_instance_id="i") as consumer:
            consumer.subscribe([one])
            await share([consumer], [3])
            described = await admin.describe_consumer_group(broker.name("removed"))
            assert (described.state, len(described.members)) == ("Stable", 1)
            advice = await admin.lint_group(broker.name("removed"))
            assert advice[0].safe
            assert await admin.remove_members_from_consumer_group(broker.name("removed"), ["i"]) == {
                "i": ErrorCode.NONE
            }
        await asyncio.gather(*admin.each.delete_topics([one, two]).values())


async def a_topic_that_grows(broker: BrokerUnderTest) -> None:
    """The leader sees new partitions and has the group share them."""
    topic = await broker.topic("grows", 2)
    async with broker.consumer("grows") as one, broker.consumer("grows") as two, broker.admin() as admin:
        one.subscribe([topic])
        two.subscribe([topic])
        await share([one, two], [1, 1])
        await admin.create_partitions(topic, 6)
        await share([one, two], [3, 3])


async def many_records(broker: BrokerUnderTest) -> None:
    """Prefetching over several partitions with fetch sessions, pauses in between: nothing lost, nothing twice, in order."""
    topic = await broker.topic("many", 4)
    total = 20_000
    async with broker.producer(compression_type="lz4") as producer:
        for n in range(total):
            await producer.send(topic, b"%d" % n, partition=n % 4)
    async with broker.consumer(None, max_partition_fetch_bytes=20_000) as consumer:
        await consumer.assign([(topic, p) for p in range(4)])
        seen: dict[int, list[int]] = {p: [] for p in range(4)}

        async def all_read() -> bool:
            for (_, partition), records in (await consumer.poll(100)).items():
                seen[partition] += [r.offset for r in records]
                if len(seen[partition]) % 3 == 0:
                    consumer.pause([(topic, partition)])
            consumer.resume(consumer.paused())
            return sum(map(len, seen.values())) >= total

        await until(all_read, "everything is read")
        assert all(offsets == list(range(total // 4)) for offsets in seen.values())


CHECKS: tuple[Callable[[BrokerUnderTest], Awaitable[None]], ...] = (
    records_and_compression,
    groups_with_every_assignor,
    mixed_assignors,
    patterns,
    commits_and_positions,
    static_members,
    transactions,
    administration,
    a_topic_that_grows,
    many_records,
)


def run_checks(
    bootstrap_servers: str,
    report: Callable[[str, str], None],
    checks: Iterable[Callable[[BrokerUnderTest], Awaitable[None]]] = CHECKS,
) -> dict[str, bool]:
    """Each check by its name, and whether it succeeded; ``report(name, problem or "")`` is called as each ends."""
    results: dict[str, bool] = {}
    for number, check in enumerate(checks):
        name, wrong = check.__name__.replace("_", " "), ""
        broker = BrokerUnderTest(bootstrap_servers, f"check{number}")
        try:
            asyncio.run(_within_time(check, broker))
        except (AssertionError, KafkaError, TimeoutError) as error:
            wrong = f"{type(error).__name__}: {error}"
        results[name] = not wrong
        report(name, wrong)
    return results


async def _within_time(check: Callable[[BrokerUnderTest], Awaitable[None]], broker: BrokerUnderTest) -> None:
    async with asyncio.timeout(4 * PATIENCE_S):
        await check(broker)
