"""Where members of each kind begin a partition that they meet later: the table of docs/concepts/offsets.md, cell by cell.

Every kind starts at the latest offset, with partitions that have records. Of a partition that it meets in one of the ways, the
first offset that it reads is compared with what the page says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from coterie.client import Admin, Producer
from coterie.client.blocking import BlockingConsumer
from coterie.pipeline.offsets import DataLossError
from coterie.pipeline.options.options import source_options
from coterie.pipeline.reading.fetching import read_range
from coterie.pipeline.streaming.admission import Limits
from coterie.pipeline.streaming.assigned_stream import AssignedStream
from coterie.pipeline.streaming.group_stream import GroupStream
from coterie.pipeline.streaming.stream_reader import QueryStream
from coterie.testing import LocalBroker
from tests.awaiting import until_in_thread

PAGE = Path("docs/concepts/offsets.md")
BEFORE, AFTER = 4, 2  # records before a partition is met, and after it
QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
    "group.consumer.assignment.interval.ms": "0",
}
Read = tuple[str, int, int]  # topic, partition, offset


class Member(Protocol):
    """One of a kind. What a stop leaves behind, such as a checkpoint, a start finds."""

    def start(self) -> None: ...

    def step(self) -> list[Read]: ...

    def knows(self, topic: str, partition: int) -> bool:
        """Whether it has a position there."""
        ...

    def stop(self) -> None: ...


class Query:
    """A streaming query of the Spark source, as Spark calls it."""

    def __init__(self, address: str, **options: str) -> None:
        given = {"kafka.bootstrap.servers": address, "subscribePattern": "^p", "startingOffsets": "latest"}
        self._options = source_options({**given, "kafka.metadata.max.age.ms": "100", **options}, streaming=True)
        self._checkpoint: dict[str, Any] | None = None

    def start(self) -> None:
        kind: Callable[[Any], QueryStream] = GroupStream if self._options.in_group else AssignedStream
        self._stream = kind(self._options)
        if self._checkpoint is None:
            self._checkpoint = self._stream.initial()

    def step(self) -> list[Read]:
        assert self._checkpoint is not None
        end = self._stream.latest(self._checkpoint, Limits(self._options.max_offsets_per_trigger))
        if end == self._checkpoint:
            return []
        tasks, settings = self._stream.plan(self._checkpoint, end), self._options.settings()
        self._checkpoint = end
        return [
            (r.topic, r.partition, int(offset))
            for r in tasks
            for columns in read_range(r, settings, with_headers=False, fail_on_data_loss=True)
            for offset in columns.offsets
        ]

    def knows(self, topic: str, partition: int) -> bool:
        if isinstance(self._stream, GroupStream):
            return (topic, partition) in self._stream.member.positions
        assert isinstance(self._stream, AssignedStream)
        return (topic, partition) in self._stream._ends

    def stop(self) -> None:
        self._stream.leave()


class Plain:
    """A consumer of ours."""

    def __init__(self, address: str, **settings: str) -> None:
        quick = {"fetch.max.wait.ms": "50", "retry.backoff.ms": "10", "metadata.max.age.ms": "100"}
        self._settings = (
            {"bootstrap.servers": address, "group.id": "g", "auto.offset.reset": "latest"} | quick | settings
        )

    def start(self) -> None:
        self._consumer = BlockingConsumer(self._settings)
        self._consumer.subscribe(re.compile("p.*"))

    def step(self) -> list[Read]:
        batches = self._consumer.poll(20)
        return [(r.topic, r.partition, r.offset) for records in batches.values() for r in records]

    def knows(self, topic: str, partition: int) -> bool:
        return (topic, partition) in self._consumer.assignment() and self._has_position(topic, partition)

    def _has_position(self, topic: str, partition: int) -> bool:
        return self._consumer.position((topic, partition)) >= 0

    def stop(self) -> None:
        self._consumer.close()


GROUP = {"kafka.group.id": "g", "mode": "group"}
KINDS: dict[str, Callable[[str], Member]] = {
    "Spark, `mode=group`": lambda at: Query(at, **GROUP, **{"kafka.heartbeat.interval.ms": "50"}),
    "Spark, `mode=group`, KIP-848": lambda at: Query(at, **GROUP, **{"kafka.group.protocol": "consumer"}),
    "Spark, `mode=assign`": lambda at: Query(at),
    "coterie's `Consumer`": lambda at: Plain(at, **{"heartbeat.interval.ms": "50"}),
    "coterie's `Consumer`, KIP-848": lambda at: Plain(at, **{"group.protocol": "consumer"}),
}


class Course:
    """A member beside its broker, and what befalls the topics: p is there from the start."""

    def __init__(self, broker: LocalBroker, member: Member) -> None:
        self.broker, self.member = broker, member
        self.read: list[Read] = []
        broker.create_topic("p", 1)
        self.produce("p", 0, BEFORE)
        member.start()
        self.until(lambda: member.knows("p", 0))

    def produce(self, topic: str, partition: int, count: int) -> None:
        self.broker.produce(topic, *(b"v" for _ in range(count)), partition=partition)

    def admin(self, work: Callable[[Admin], Awaitable[object]]) -> None:
        async def story() -> None:
            async with Admin({"bootstrap.servers": self.broker.bootstrap_servers}) as admin:
                await work(admin)

        asyncio.run(story())

    def until(self, done: Callable[[], bool]) -> None:
        def once() -> bool:
            self.read += self.member.step()
            return done()

        until_in_thread(once, "the member's next state")

    def first(self, topic: str, partition: int, before: int = BEFORE) -> int:
        """The first offset that is read of a partition that has records and gets more once it is met."""
        self.until(lambda: self.member.knows(topic, partition))
        self.produce(topic, partition, AFTER)
        last = (topic, partition, before + AFTER - 1)
        self.until(lambda: last in self.read)
        return min(offset for t, p, offset in self.read if (t, p) == (topic, partition))


def there_at_the_start(course: Course) -> int:
    return course.first("p", 0)


def a_topic_of_its_pattern_appears(course: Course) -> int:
    course.broker.create_topic("pb", 1)
    course.produce("pb", 0, BEFORE)
    return course.first("pb", 0)


def partitions_are_added(course: Course) -> int:
    course.admin(lambda admin: admin.create_partitions("p", 2))
    course.produce("p", 1, BEFORE)
    return course.first("p", 1)


def its_topic_is_deleted_and_created_again(course: Course) -> int:
    course.produce("p", 0, AFTER)
    course.until(lambda: len(course.read) == AFTER)
    course.read.clear()
    course.admin(lambda admin: admin.delete_topic("p"))
    course.broker.create_topic("p", 1)
    course.produce("p", 0, BEFORE + AFTER)
    return course.first("p", 0, BEFORE + AFTER)


def it_appears_while_the_member_is_away(course: Course) -> int:
    course.produce("p", 0, AFTER)
    course.until(lambda: len(course.read) == AFTER)
    course.member.stop()
    course.broker.create_topic("pb", 1)
    course.produce("pb", 0, BEFORE)
    course.member.start()
    return course.first("pb", 0)


def its_records_come_while_the_member_is_away(course: Course) -> int:
    course.produce("p", 0, AFTER)
    course.until(lambda: len(course.read) == AFTER)
    course.until(lambda: True)  # the next trigger commits the batch
    course.member.stop()
    course.produce("p", 0, 10)
    course.read.clear()
    course.member.start()
    return course.first("p", 0, BEFORE + AFTER + 10)


def the_groups_offsets_expire_while_the_member_is_away(course: Course) -> int:
    course.produce("p", 0, AFTER)
    course.until(lambda: len(course.read) == AFTER)
    course.member.stop()
    if course.broker.committed("g"):
        course.admin(lambda admin: admin.delete_consumer_group_offsets("g", [("p", 0)]))
    course.produce("p", 0, 10)
    course.read.clear()
    course.member.start()
    return course.first("p", 0, BEFORE + AFTER + 10)


# A heading of the table's columns: the course, and what an offset means in it.
WAYS: dict[str, tuple[Callable[[Course], int], dict[int, str]]] = {
    "there at the start": (there_at_the_start, {0: "beginning", BEFORE: "end"}),
    "a new topic of its pattern": (a_topic_of_its_pattern_appears, {0: "beginning", BEFORE: "end"}),
    "partitions added": (partitions_are_added, {0: "beginning", BEFORE: "end"}),
    "deleted and created again": (
        its_topic_is_deleted_and_created_again,
        {0: "beginning", BEFORE + AFTER: "former offset or end"},
    ),
    "new while it was away": (it_appears_while_the_member_is_away, {0: "beginning", BEFORE: "end"}),
    "records while it was away": (
        its_records_come_while_the_member_is_away,
        {0: "beginning", BEFORE + AFTER: "its offset", BEFORE + AFTER + 10: "end"},
    ),
    "offsets expired while it was away": (
        the_groups_offsets_expire_while_the_member_is_away,
        {0: "beginning", BEFORE: "its last batch", BEFORE + AFTER: "its offset", BEFORE + AFTER + 10: "end"},
    ),
}


def table() -> dict[tuple[str, str], str]:
    """The page's cells, by kind and way."""
    rows = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    head = next(n for n, row in enumerate(rows) if row[0].strip() == "the partition is")
    kinds = [cell.strip() for cell in rows[head][1:]]
    cells: dict[tuple[str, str], str] = {}
    for way, *values in ([cell.strip() for cell in row] for row in rows[head + 2 : head + 2 + len(WAYS)]):
        cells |= {(kind, way): value for kind, value in zip(kinds, values, strict=True)}
    return cells


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(QUICK_GROUPS) as process:
        yield process


def test_the_table_has_every_kind_and_way() -> None:
    assert {(kind, way) for kind in KINDS for way in WAYS} <= table().keys()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_member_begins_where_the_table_says(broker: LocalBroker, kind: str, way: str) -> None:
    member = KINDS[kind](broker.bootstrap_servers)
    course, names = WAYS[way]
    try:
        begun = names.get(course(Course(broker, member)), "elsewhere")
    except DataLossError:
        begun = "an error"
    finally:
        member.stop()
    assert begun == table()[kind, way]


def test_a_member_that_joins_a_group_that_has_begun_reads_what_nobody_has_from_its_beginning(
    broker: LocalBroker,
) -> None:
    """The topic is older than the query, and younger than the group: the first member has not looked for it yet."""
    late = {"kafka.metadata.max.age.ms": "300000", "kafka.heartbeat.interval.ms": "50"}
    first, second = (Query(broker.bootstrap_servers, **GROUP, **late) for _ in range(2))
    course = Course(broker, first)
    broker.create_topic("pb", 1)
    course.produce("pb", 0, BEFORE)
    second.start()
    read: list[Read] = []

    def both() -> bool:
        read.extend(first.step() + second.step())
        return ("pb", 0, BEFORE - 1) in read

    until_in_thread(both, "the records of pb are read")
    assert read == [("pb", 0, offset) for offset in range(BEFORE)]
    first.stop()
    second.stop()


@pytest.mark.parametrize("options", [GROUP, {}], ids=["group", "assign"])
def test_a_later_partition_without_its_first_records_is_data_loss(broker: LocalBroker, options: dict[str, str]) -> None:
    course = Course(broker, Query(broker.bootstrap_servers, **options))

    async def created_and_cut(admin: Admin) -> None:
        await admin.create_topic("pb", 1)
        async with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
            for _ in range(BEFORE):
                await producer.send("pb", b"v")
        await admin.delete_records({("pb", 0): 2})

    course.admin(created_and_cut)
    with pytest.raises(DataLossError, match="pb-0 is new and begins at 2: its first records were deleted unread"):
        course.until(lambda: False)
    course.member.stop()


def test_a_deleted_topic_with_unread_records_is_data_loss(broker: LocalBroker) -> None:
    member = Query(
        broker.bootstrap_servers, **GROUP, **{"kafka.metadata.max.age.ms": "300000", "maxOffsetsPerTrigger": "1"}
    )
    course = Course(broker, member)
    course.produce("p", 0, 3)
    course.until(lambda: len(course.read) == 1)
    course.admin(lambda admin: admin.delete_topic("p"))
    with pytest.raises(DataLossError, match="p was deleted, and of p-0 the records from 5 on were unread"):
        course.member.step()
    course.member.stop()


@pytest.mark.parametrize("kind", ["Spark, `mode=group`", "Spark, `mode=group`, KIP-848"])
def test_a_batch_of_a_deleted_topic_is_not_committed_for_its_successor(broker: LocalBroker, kind: str) -> None:
    """Or the successor's first records are skipped by the next member that is assigned the partition."""
    course = Course(broker, KINDS[kind](broker.bootstrap_servers))
    course.produce("p", 0, AFTER)
    course.until(lambda: len(course.read) == AFTER)
    course.admin(lambda admin: admin.delete_topic("p"))
    course.broker.create_topic("p", 1)
    course.until(lambda: True)  # the trigger that commits the batch
    assert broker.committed("g").get(("p", 0), 0) == 0
    course.member.stop()


def test_without_the_error_a_query_that_assigns_reads_a_topic_that_was_created_again_from_its_beginning(
    broker: LocalBroker,
) -> None:
    course = Course(broker, Query(broker.bootstrap_servers, failOnDataLoss="false"))
    assert its_topic_is_deleted_and_created_again(course) == 0
    course.member.stop()
