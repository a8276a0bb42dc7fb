"""Generated stories of a consumer beside a model of it: it subscribes, assigns, seeks, pauses, polls and commits in any order,
a third of its calls are cancelled at one of their awaits, and meanwhile another member comes and goes, topics grow, connections
are cut, the coordinator moves and requests are refused or never answered.

``python -m tests.client.consumer.test_consumer_stories FIRST COUNT`` tells more of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import pytest

from coterie.client import Admin, Consumer, KafkaError, RebalanceListener, TopicPartition
from coterie.client.types import Record
from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import until
from tests.client.generated_story import GeneratedStory, tell, tell_as_requested
from tests.client.group import QUICK

TOPICS = ("a", "b")
MOST_PARTITIONS = 5
STEPS = 70
UNKNOWN_OFFSET = -1
Protocol = tuple[str, str]  # group.protocol and the assignor
PROTOCOLS: tuple[Protocol, ...] = (("classic", "range"), ("classic", "cooperative-sticky"), ("consumer", ""))
REFUSALS = (
    ("Fetch", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ("Heartbeat", ErrorCode.NOT_COORDINATOR),
    ("ListOffsets", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ("Metadata", ErrorCode.LEADER_NOT_AVAILABLE),
    ("OffsetCommit", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ("OffsetCommit", ErrorCode.NOT_COORDINATOR),
    ("OffsetFetch", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
)
LOST = ("Fetch", "Heartbeat", "ListOffsets", "OffsetCommit", "OffsetFetch", "SyncGroup")  # requests without a response
SESSION_MS = 6_000  # less than `until` waits


def settings_of(broker: LocalBroker, protocol: Protocol, is_auto: bool) -> dict[str, Any]:
    settings = QUICK | {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": "g",
        "group.protocol": protocol[0],
        "enable.auto.commit": is_auto,
        "auto.commit.interval.ms": 30,
        "request.timeout.ms": 400,
        "default.api.timeout.ms": 8_000,
    }
    if protocol[0] == "consumer":
        return {name: value for name, value in settings.items() if name != "heartbeat.interval.ms"}
    return settings | {"partition.assignment.strategy": protocol[1], "session.timeout.ms": SESSION_MS}


class Story(GeneratedStory, RebalanceListener):
    """``logs``: the records of each partition, whose offsets are their indexes. ``positions``: of what is assigned, None where
    it is not known; ``starts``: what the group has had committed since then."""

    broker_settings = {
        "group.consumer.heartbeat.interval.ms": "50",
        # A member whose leave was sent on a connection that had been cut stays for so long.
        "group.consumer.min.session.timeout.ms": str(SESSION_MS),
        "group.consumer.session.timeout.ms": str(SESSION_MS),
    }
    cancelled_share, refusals, lost = 0.3, REFUSALS, LOST

    def __init__(self, seed: int, broker: LocalBroker) -> None:
        super().__init__(seed, broker)
        self.is_auto = self.rng.random() < 0.5
        self.settings = settings_of(broker, self.rng.choice(PROTOCOLS), self.is_auto)
        self.consumer: Consumer[bytes, bytes] = Consumer(self.settings)
        self.other: asyncio.Task[None] | None = None  # another member, as long as it is one
        self.logs: dict[TopicPartition, list[int]] = {}
        self.subscribed: frozenset[str] | None = None
        self.is_assigned = False
        self.positions: dict[TopicPartition, int | None] = {}
        self.paused: set[TopicPartition] = set()
        self.starts: dict[TopicPartition, set[int]] = {}
        for topic in TOPICS:
            broker.create_topic(topic, count := self.rng.randint(1, 3))
            self.logs |= {TopicPartition(topic, index): [] for index in range(count)}

    # -- the group's callbacks ------------------------------------------------------------------------------------------------

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.note("revoked", *map(str, sorted(partitions)))
        for partition in partitions:
            self.positions.pop(partition, None)
            self.paused.discard(partition)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.note("assigned", *map(str, sorted(partitions)))
        self.begin(partitions)

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Their positions are to be looked up."""
        now = self.broker.committed("g")
        for partition in partitions:
            self.positions[partition], self.starts[partition] = None, {now.get(partition, 0)}

    # -- calls ----------------------------------------------------------------------------------------------------------------

    async def poll(self) -> None:
        if self.subscribed is not None or self.positions:
            most = self.rng.choice((1, 3, 500))
            is_cancelled, polled = await self.call("poll", self.consumer.poll(self.rng.choice((0, 5, 30)), most))
            if not is_cancelled:
                assert sum(map(len, polled.values())) <= most
                self.returned(polled)

    def returned(self, polled: Mapping[TopicPartition, list[Record[bytes, bytes]]]) -> None:
        """Each partition goes on where it was, without a gap."""
        for partition, records in polled.items():
            self.note("got", partition, records[0].offset, len(records))
            assert partition in self.positions, f"{partition} is not assigned"
            assert partition not in self.paused, f"{partition} is paused"
            start = self.positions[partition]
            if start is None:
                start = records[0].offset
                assert start in self.starts[partition], f"{partition} begins at {start}"
            end = start + len(records)
            assert [r.offset for r in records] == list(range(start, end)), f"{partition} from {start}"
            assert [int(r.value or b"") for r in records] == self.logs[partition][start:end], partition
            self.positions[partition] = end

    async def subscribe(self) -> None:
        if not self.is_assigned:
            self.subscribed = frozenset(self.rng.sample(TOPICS, self.rng.randint(1, 2)))
            self.note("subscribe", *sorted(self.subscribed))
            self.consumer.subscribe(self.subscribed, self)

    async def assign(self) -> None:
        if self.subscribed is not None:
            return
        wanted = self.rng.sample(sorted(self.logs), self.rng.randint(1, min(3, len(self.logs))))
        old = dict(self.positions)
        self.begin(wanted)
        try:
            await self.call(f"assign {' '.join(map(str, wanted))}", self.consumer.assign(wanted))
        except KafkaError as error:  # the positions are looked up again
            self.note(error)
        self.is_assigned = True
        self.positions = {partition: old.get(partition) for partition in wanted}
        self.paused &= set(wanted)

    async def unsubscribe(self) -> None:
        await self.end_other()
        await self.call("unsubscribe", self.consumer.unsubscribe())
        self.subscribed, self.is_assigned, self.positions, self.paused = None, False, {}, set()
        if self.broker.members("g"):  # the LeaveGroup was sent on a connection that had been cut
            self.broker.jump(60_000)

    async def seek(self) -> None:
        if self.positions:
            partition = self.rng.choice(sorted(self.positions))
            offset = self.positions[partition] = self.rng.randint(0, len(self.logs[partition]))
            self.note("seek", partition, offset)
            self.consumer.seek(partition, offset)

    async def seek_to_an_end(self) -> None:
        if self.positions:
            partition, is_end = self.rng.choice(sorted(self.positions)), self.rng.random() < 0.5
            seek = self.consumer.seek_to_end if is_end else self.consumer.seek_to_beginning
            wanted = len(self.logs[partition]) if is_end else 0
            is_cancelled, _ = await self.call(f"seek to {wanted} of {partition}", seek([partition]))
            if is_cancelled and self.consumer.position(partition) != wanted:
                return
            self.positions[partition] = wanted

    async def pause(self) -> None:
        if self.positions:
            self.paused.add(partition := self.rng.choice(sorted(self.positions)))
            self.note("pause", partition)
            self.consumer.pause([partition])

    async def resume(self) -> None:
        if self.paused:
            self.paused.discard(partition := self.rng.choice(sorted(self.paused)))
            self.note("resume", partition)
            self.consumer.resume([partition])

    async def commit(self) -> None:
        """It is made; or it is cancelled, or refused during a rebalance, and then each offset is the old one or the new one."""
        if self.is_auto or self.other is not None or not self.positions:
            return
        new = {tp: p for tp in self.positions if (p := self.consumer.position(tp)) != UNKNOWN_OFFSET}
        given = self.rng.random() < 0.4
        if given:
            partition = self.rng.choice(sorted(self.positions))
            new = {partition: self.rng.randint(0, len(self.logs[partition]))}
        old = self.broker.committed("g")
        is_made, may_fail = False, self.subscribed is not None
        with contextlib.suppress(KafkaError) if may_fail else contextlib.nullcontext():
            is_made = not (await self.call("commit", self.consumer.commit(new if given else None)))[0]
        now = self.broker.committed("g")
        for partition, offset in new.items():
            assert now.get(partition) == offset or (not is_made and now.get(partition) == old.get(partition))

    async def ask(self) -> None:
        wanted = self.rng.sample(sorted(self.logs), 2)
        name = self.rng.choice(("beginning_offsets", "committed", "end_offsets"))
        is_cancelled, offsets = await self.call(name, getattr(self.consumer, name)(wanted))
        if is_cancelled or (name == "committed" and (self.is_auto or self.other is not None)):
            return
        now = self.broker.committed("g")
        expected = {
            "beginning_offsets": dict.fromkeys(wanted, 0),
            "committed": {partition: now.get(partition, -1) for partition in wanted},
            "end_offsets": {partition: len(self.logs[partition]) for partition in wanted},
        }
        assert offsets == expected[name], name

    # -- what happens meanwhile ----------------------------------------------------------------------------------------------

    async def produce(self) -> None:
        partition = self.rng.choice(sorted(self.logs))
        first = sum(map(len, self.logs.values()))
        values = range(first, first + self.rng.randint(1, 6))
        self.note("produce", partition, len(values))
        self.broker.produce(partition.topic, *(b"%d" % value for value in values), partition=partition.partition)
        self.logs[partition] += values

    async def extend(self) -> None:
        topic = self.rng.choice(TOPICS)
        count = sum(partition.topic == topic for partition in self.logs)
        if count < MOST_PARTITIONS:
            self.note("extend", topic)
            async with Admin({"bootstrap.servers": self.broker.bootstrap_servers}) as admin:
                await admin.create_partitions(topic, count + 1)
            self.logs[TopicPartition(topic, count)] = []

    async def join_or_leave(self) -> None:
        """Of another member."""
        if self.other is not None:
            await self.end_other()
        elif self.subscribed is not None:
            self.note("another member joins")
            self.other = asyncio.create_task(self.be_other())

    async def be_other(self) -> None:
        async with Consumer(self.settings) as other:
            other.subscribe(TOPICS)
            while True:
                for partition, records in (await other.poll(20)).items():
                    assert all(int(r.value or b"") == self.logs[partition][r.offset] for r in records), partition
                if not self.is_auto:
                    with contextlib.suppress(KafkaError):
                        await other.commit()

    async def end_other(self) -> None:
        if self.other is not None:
            self.note("the other member leaves")
            self.other.cancel()
            await asyncio.wait({self.other})
            if not self.other.cancelled():
                self.other.result()
            self.other = None

    def disturbances(self) -> list[Callable[[], None]]:
        return [self.cut, self.lose, self.move_coordinator, self.refuse]

    def move_coordinator(self) -> None:
        self.note("the coordinator moves")
        self.broker.move_coordinator("g")

    # -- what must hold ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """After each step."""
        for partition, offset in self.broker.committed("g").items():
            self.starts.get(TopicPartition(*partition), set()).add(offset)
        assert self.consumer.assignment() == set(self.positions)
        assert self.consumer.paused() == self.paused
        for partition, expected in self.positions.items():
            position = self.consumer.position(partition)
            if expected is None:
                assert position == UNKNOWN_OFFSET or position in self.starts[partition], partition
                self.positions[partition] = None if position == UNKNOWN_OFFSET else position
            else:
                assert position in (UNKNOWN_OFFSET, expected), f"{partition} at {position}, not at {expected}"

    async def settle(self) -> None:
        """Alone: the whole subscription is assigned, and all that is not paused is read."""
        await self.end_other()
        if self.subscribed is None and not self.positions:
            return
        wanted = {tp for tp in self.logs if tp.topic in self.subscribed} if self.subscribed else set(self.positions)

        async def is_settled() -> bool:
            self.returned(await self.consumer.poll(20))
            return self.consumer.assignment() == wanted and all(map(self.is_read, wanted - self.paused))

        await until(is_settled, lambda: f"positions {self.positions}; {self.broker.explain('g')}")

    def is_read(self, partition: TopicPartition) -> bool:
        return self.consumer.position(partition) == len(self.logs[partition])

    async def run(self) -> None:
        step = [self.produce] * 4 + [self.poll] * 8 + [self.join_or_leave] * 3
        step += [self.subscribe, self.resume, self.commit, self.disturb] * 2
        step += [self.assign, self.unsubscribe, self.seek, self.seek_to_an_end, self.pause]
        step += [self.ask, self.extend, self.settle]
        for _ in range(STEPS):
            await self.rng.choice(step)()
            self.check()
        await self.settle()
        await self.consumer.close()


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in [*range(4, 12), 20])]
)
def test_a_story(seed: int) -> None:
    tell(Story, [seed])


if __name__ == "__main__":
    tell_as_requested(Story)
