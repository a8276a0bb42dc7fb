"""A story of a producer of version 2 of transactions (KIP-890), with each response and the states that it leaves in
`__transaction_state`.

Those of Apache Kafka stand in data/transaction-v2-story-VERSION.json. To record it again (Java and Maven needed):
python -m tests.broker.transactions.transaction_v2_story 4.3.0
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.records.batch import TRANSACTIONAL_BIT, batches
from coterie.records.decoding import decode_keys_and_values
from coterie.records.encoding import encode_batch
from coterie.wire.errors import error_of
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from coterie.wire.messages.transactions.describe_transactions import DescribeTransactionsRequest
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.transactions.transaction_story import DATA, PATIENCE_S, SETTINGS, Teller, codes_of

NAME = "x"
Row = list[Any]


class Story:
    """Producer ids and epochs are counted from the first."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.teller = Teller(address)
        self.rows: list[Row] = []
        self.teller.socket.request(CreateTopicsRequest([CreatableTopic("t", 2, 1)]))
        for key, kind in ((NAME, 1), ("g", 0)):
            self.teller.ask(FindCoordinatorRequest(key, kind), 3)
        self.producer_id, self.epoch = self.teller.producer(NAME)

    def produce(self, epoch: int, sequence: int, version: int = 12, partition: int = 0) -> None:
        batch = encode_batch(
            [(1, None, b"v", ())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch + epoch,
            base_sequence=sequence,
            attributes=TRANSACTIONAL_BIT,
        )
        data = [TopicProduceData("t", partition_data=[PartitionProduceData(partition, batch)])]
        response = self.teller.ask(ProduceRequest(NAME, -1, 3_000, data), version).responses[0].partition_responses[0]
        step = f"Produce of sequence {sequence} in epoch {epoch} to t-{partition} v{version}"
        self.rows.append([step, error_of(response.error_code).name, response.base_offset])

    def end(self, epoch: int, committed: bool, version: int = 5) -> None:
        request = EndTxnRequest(NAME, self.producer_id, self.epoch + epoch, committed)
        response = self.teller.ask(request, version)
        after: Row = (
            []
            if response.producer_id < 0
            else [response.producer_id - self.producer_id, response.producer_epoch - self.epoch]
        )
        self.rows.append(
            [f"EndTxn {committed} in epoch {epoch} v{version}", error_of(response.error_code).name, *after]
        )
        self._until_marked()

    def _until_marked(self) -> None:
        """Markers follow a moment after the response to EndTxn."""
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            (state,) = self.teller.socket.request(DescribeTransactionsRequest([NAME])).transaction_states
            if not state.transaction_state.startswith("Prepare"):
                return

    def commit(self, epoch: int, version: int = 5) -> None:
        topics = [TxnOffsetCommitRequestTopic("t", partitions=[TxnOffsetCommitRequestPartition(0, 5, -1, "")])]
        request = TxnOffsetCommitRequest(NAME, "g", self.producer_id, self.epoch + epoch, topics=topics)
        codes = [error_of(code).name for code in codes_of(self.teller.ask(request, version))]
        self.rows.append([f"TxnOffsetCommit in epoch {epoch} v{version}", *codes])

    def init(self, epoch: int | None = None) -> None:
        claim = (-1, -1) if epoch is None else (self.producer_id, self.epoch + epoch)
        response = self.teller.ask(InitProducerIdRequest(NAME, 60_000, *claim), 5)
        self.rows.append(
            [f"InitProducerId claims {epoch}", error_of(response.error_code).name, response.producer_epoch]
        )

    def ask_as_a_broker(self, epoch: int, version: int, *, verify_only: bool, partitions: list[int]) -> None:
        topics = [AddPartitionsToTxnTopic("t", partitions)]
        requested = AddPartitionsToTxnTransaction(NAME, self.producer_id, self.epoch + epoch, verify_only, topics)
        response = self.teller.socket.request(AddPartitionsToTxnRequest(transactions=[requested]), highest=version)
        (result,) = response.results_by_transaction
        codes = sorted(
            (p.partition_index, error_of(p.partition_error_code).name)
            for t in result.topic_results
            for p in t.results_by_partition
        )
        step = f"AddPartitionsToTxn {'verifies' if verify_only else 'adds'} {partitions} in epoch {epoch} v{version}"
        self.rows.append([step, *map(list, codes)])


def tell(address: tuple[str, int]) -> list[Row]:
    """Steps with their responses."""
    story = Story(address)
    try:
        for part in (_records, _ends_of_nothing, _offsets, _between_brokers, _of_version_1, _identities):
            part(story)
    finally:
        story.teller.socket.close()
    return story.rows


def _records(story: Story) -> None:
    story.produce(0, 5)
    story.produce(0, 0)
    story.produce(0, 1)
    story.produce(1, 2)
    story.end(0, True)
    story.end(0, True)
    story.end(0, False)
    story.produce(0, 2)
    story.produce(1, 5)


def _ends_of_nothing(story: Story) -> None:
    story.end(1, False)  # the refused records have begun it
    story.end(2, True)
    story.end(2, False)
    story.end(2, False)
    story.end(2, True)
    story.end(9, False)


def _offsets(story: Story) -> None:
    story.commit(3)
    story.commit(2)
    story.commit(4)
    story.commit(3, 4)
    story.end(3, True)
    story.commit(4, 4)
    story.commit(4)
    story.end(4, False)


def _between_brokers(story: Story) -> None:
    for version in (4, 5):
        story.ask_as_a_broker(5, version, verify_only=True, partitions=[0])
        story.ask_as_a_broker(4, version, verify_only=True, partitions=[0])
        story.ask_as_a_broker(4, version, verify_only=False, partitions=[0])
        story.ask_as_a_broker(5, version, verify_only=False, partitions=[0, 9])
    story.ask_as_a_broker(5, 4, verify_only=False, partitions=[0])
    for version in (4, 5):
        story.ask_as_a_broker(5, version, verify_only=True, partitions=[0, 1])
    story.end(5, False)


def _of_version_1(story: Story) -> None:
    story.produce(6, 0)
    story.end(6, True, 4)
    story.end(6, True, 4)
    story.end(6, False, 4)
    story.end(6, False)
    story.end(6, False, 4)


def _identities(story: Story) -> None:
    story.commit(7)
    story.init(7)
    story.init(7)
    story.init(8)
    story.init(7)
    story.init()


def states(folder: Path) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of `__transaction_state` in a data folder."""
    rows = []
    for path in sorted(folder.rglob("__transaction_state-0/*.log")):
        data = path.read_bytes()
        for at, header in batches(data):
            rows += [(key or b"", value) for key, value, _ in decode_keys_and_values(data, at, header)]
    return rows


def record(tell_it: Callable[[tuple[str, int]], list[Row]], version: str) -> None:
    """Writes the file of that version of Apache Kafka."""
    from coterie_conformance.servers.kafka import running

    with tempfile.TemporaryDirectory() as folder:
        with running(version, Path(folder) / "kafka", SETTINGS) as address:
            responses = [json.dumps(row) for row in tell_it(address)]
        stored = [json.dumps([key.hex(), (value or b"").hex()]) for key, value in states(Path(folder))]
    text = '{"answers": [\n' + ",\n".join(responses) + '\n],\n"states": [\n' + ",\n".join(stored) + "\n]}\n"
    (DATA / f"transaction-v2-story-{version}.json").write_text(text)


if __name__ == "__main__":
    for kafka_version in sys.argv[1:]:
        record(tell, kafka_version)
