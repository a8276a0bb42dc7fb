"""Generated stories of a producer beside a model of it: it sends, flushes, commits, aborts and closes in any order, a third of
its calls are cancelled at one of their awaits, and meanwhile connections are cut and requests are refused or never answered. In
the end each acknowledged record is in the log once, in order, and nothing of an aborted transaction.

``python -m tests.client.producer.test_producer_stories FIRST COUNT`` tells more of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from coterie.client import Consumer, KafkaError, Producer
from coterie.client.producer.delivery import Delivery
from coterie.client.types import ConsumerGroupMetadata
from coterie.testing import ErrorCode, LocalBroker
from tests.client.generated_story import GeneratedStory, tell, tell_as_requested

TOPIC, PARTITIONS, GROUP = "t", 2, "g"
STEPS = 60
REFUSALS = (
    ("FindCoordinator", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ("InitProducerId", ErrorCode.CONCURRENT_TRANSACTIONS),
    ("Metadata", ErrorCode.LEADER_NOT_AVAILABLE),
    ("Produce", ErrorCode.NOT_ENOUGH_REPLICAS),
    ("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ("Produce", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("TxnOffsetCommit", ErrorCode.NOT_COORDINATOR),
)
LOST = ("AddOffsetsToTxn", "AddPartitionsToTxn", "EndTxn", "InitProducerId", "Metadata", "Produce", "TxnOffsetCommit")


@dataclass
class Sent:
    """A record. ``delivery``: None where its `send` was cancelled; ``offset``: where it is acknowledged; ``transaction``: its
    number."""

    number: int
    partition: int
    transaction: int | None
    delivery: Delivery | None
    offset: int | None = None
    failure: KafkaError | None = None

    @property
    def is_open(self) -> bool:
        return self.delivery is not None and self.offset is None and self.failure is None

    async def end(self) -> None:
        assert self.delivery is not None
        try:
            self.offset = (await self.delivery).offset
        except KafkaError as error:
            self.failure = error


class Story(GeneratedStory):
    """``transactions``: whether each is committed, None while it is open. ``offsets``: what the group may have committed, with
    the transactions so far and with the present one."""

    cancelled_share, refusals, lost = 0.35, REFUSALS, LOST

    def __init__(self, seed: int, broker: LocalBroker) -> None:
        super().__init__(seed, broker)
        self.is_transactional = seed % 3 > 0
        self.settings: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "linger.ms": self.rng.choice((0, 2, 5)),
            "batch.size": self.rng.choice((100, 300, 16_384)),
            "buffer.memory": self.rng.choice((2_000, 1_000_000)),
            "max.in.flight.requests.per.connection": self.rng.choice((1, 5)),
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 50,
            "request.timeout.ms": 300,
            "delivery.timeout.ms": 20_000,
            "max.block.ms": 20_000,
        }
        if self.is_transactional:
            self.settings["transactional.id"] = "x"
        self.records: list[Sent] = []
        self.transactions: list[bool | None] = []
        self.offsets: tuple[set[int | None], set[int | None]] = {None}, {None}
        broker.create_topic(TOPIC, PARTITIONS)

    @property
    def is_in_transaction(self) -> bool:
        return bool(self.transactions) and self.transactions[-1] is None

    async def until_done(self, name: str, call: Any) -> None:
        """Calls again what was cancelled."""
        while (await self.call(name, call()))[0]:
            pass

    # -- steps ----------------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        self.producer: Producer[bytes, bytes] = Producer(self.settings)
        if self.is_transactional:
            await self.until_done("init", self.producer.init_transactions)

    async def send(self) -> None:
        if self.is_transactional and not self.is_in_transaction:
            return
        for _ in range(self.rng.choice((1, 1, 4, 12))):
            number, partition = len(self.records), self.rng.randrange(PARTITIONS)
            value = b"%d%s" % (number, b"." * self.rng.choice((0, 80)))
            _, delivery = await self.call(f"send {number}", self.producer.send(TOPIC, value, partition=partition))
            transaction = len(self.transactions) - 1 if self.is_transactional else None
            self.records.append(Sent(number, partition, transaction, delivery))

    async def flush(self) -> None:
        is_cancelled, _ = await self.call("flush", self.producer.flush())
        if not is_cancelled:
            await self.end_all()

    async def end_all(self) -> None:
        for record in self.records:
            if record.is_open:
                await record.end()

    async def wait(self) -> None:
        waiting = [record for record in self.records if record.is_open]
        if waiting:
            record = self.rng.choice(waiting)
            await self.call(f"wait for {record.number}", record.end())

    async def begin(self) -> None:
        if self.is_transactional and not self.is_in_transaction:
            self.note("begin")
            self.producer.begin_transaction()
            self.transactions.append(None)

    async def send_offsets(self) -> None:
        """Cancelled, the offsets may belong to the transaction or not."""
        if self.is_in_transaction:
            offset, group = self.rng.randint(1, 1_000), ConsumerGroupMetadata(GROUP)
            offsets = self.producer.send_offsets_to_transaction({(TOPIC, 0): offset}, group)
            is_cancelled, _ = await self.call(f"offset {offset}", offsets)
            before, now = self.offsets
            self.offsets = before, {offset, *(now if is_cancelled else ())}

    async def end(self) -> None:
        if not self.is_in_transaction:
            return
        is_committed = self.rng.random() < 0.6
        try:
            call = self.producer.commit_transaction if is_committed else self.producer.abort_transaction
            await self.until_done("commit" if is_committed else "abort", call)
        except KafkaError as error:
            self.note(error)
            assert is_committed
            is_committed = False
            await self.until_done("abort", self.producer.abort_transaction)
        self.ended(is_committed)

    def ended(self, is_committed: bool) -> None:
        self.transactions[-1] = is_committed
        before, now = self.offsets
        self.offsets = (now, set(now)) if is_committed else (before, set(before))

    async def close(self) -> None:
        """Another producer goes on."""
        is_cancelled, _ = await self.call("close", self.producer.close())
        waiting = [record for record in self.records if record.is_open]
        await self.end_all()
        if not is_cancelled and not self.is_transactional:
            assert all(record.failure is None for record in waiting), "a close returned before what was sent ended"
        if self.is_in_transaction:
            self.ended(False)
        await self.open()

    # -- what must hold --------------------------------------------------------------------------------------------------------

    async def logs(self) -> list[dict[int, int]]:
        """The numbers of the committed records by offset, of each partition."""
        settings = {"bootstrap.servers": self.broker.bootstrap_servers, "isolation.level": "read_committed"}
        logs: list[dict[int, int]] = [{} for _ in range(PARTITIONS)]
        async with Consumer(settings | {"auto.offset.reset": "earliest"}) as reader:
            partitions = [(TOPIC, index) for index in range(PARTITIONS)]
            await reader.assign(partitions)
            ends = await reader.end_offsets(partitions)
            while any(reader.position(partition) < end for partition, end in ends.items()):
                for records in (await reader.poll(30)).values():
                    for record in records:
                        logs[record.partition][record.offset] = int((record.value or b"").rstrip(b"."))
        return logs

    def check(self, logs: list[dict[int, int]]) -> None:
        for partition, log in enumerate(logs):
            numbers = [log[offset] for offset in sorted(log)]
            assert numbers == sorted(set(numbers)), f"out of order, or twice, in partition {partition}: {numbers}"
        for record in self.records:
            is_there = record.number in (log := logs[record.partition]).values()
            if record.delivery is None:
                assert not is_there, f"{record} was never sent"
            elif record.transaction is not None and not self.transactions[record.transaction]:
                assert not is_there, f"{record} is of an aborted transaction"
            elif record.offset is not None:
                assert is_there, f"{record} was acknowledged"
                assert record.offset == -1 or log.get(record.offset) == record.number, f"{record} is elsewhere"
            else:
                assert record.transaction is None, f"{record} failed in a transaction that was committed"

    async def run(self) -> None:
        steps = [self.send] * 8 + [self.wait, self.begin, self.end, self.disturb] * 2
        steps += [self.flush, self.send_offsets, self.close]
        await self.open()
        for _ in range(STEPS):
            await self.rng.choice(steps)()
        self.broker.faults.rules.clear()
        await self.close()
        await self.producer.close()
        self.check(await self.logs())
        assert self.broker.committed(GROUP).get((TOPIC, 0)) in self.offsets[0]


@pytest.mark.parametrize("seed", range(12))
def test_a_story(seed: int) -> None:
    tell(Story, [seed])


if __name__ == "__main__":
    tell_as_requested(Story)
