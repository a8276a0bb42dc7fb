"""Requests of producers to a broker, in order: right, wrong and late ones about transactions, each response as JSON.

What Apache Kafka answers stands in data/transaction-story-VERSION.json. To record it again (Java and Maven needed):
python -m tests.broker.transactions.transaction_story 3.9.1 4.3.0
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from coterie.wire.messages.transactions.end_txn import EndTxnRequest
from coterie.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from coterie.wire.messages.transactions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

DATA = Path(__file__).parents[1] / "data"
SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,  # of a Produce whose transaction is not ready
    }
)
PATIENCE_S = 20.0
LAST_EPOCH = 32_767
UNKNOWN_ID = 10**6
Response = list[Any]
Producer = tuple[int, int]


class Teller:
    """Producer ids are told as whose they are: "fresh" the first time, then "known"; "-1" for none."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = BrokerSocket(*address)
        self.responses: list[tuple[str, Response]] = []
        self._known: set[int] = set()
        self._names = 0

    def new_name(self) -> str:
        self._names += 1
        return f"name-{self._names}"

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Asks again while the coordinator is busy: markers follow a moment after their transaction's end."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            response = self.socket.request(request, highest=version)
            if not AGAIN & set(codes_of(response)) or time.monotonic() > end_s:
                return response
            time.sleep(0.02)

    def tell(self, step: str, request: Message, version: int | None = None) -> Any:
        response = self.ask(request, version)
        codes: Response = [error_of(code).name for code in codes_of(response)]
        if isinstance(request, AddPartitionsToTxnRequest):
            codes.sort()  # Kafka's order is that of a hash table
        if isinstance(request, InitProducerIdRequest):
            producer_id = response.producer_id
            whose = "-1" if producer_id == -1 else "known" if producer_id in self._known else "fresh"
            self._known.add(producer_id)
            codes += [whose, response.producer_epoch]
        self.responses.append((step, codes))
        return response

    def producer(self, name: str) -> Producer:
        response = self.ask(InitProducerIdRequest(name, 60_000))
        self._known.add(response.producer_id)
        return response.producer_id, response.producer_epoch


def codes_of(response: Any) -> list[int]:
    """Every error code, in the order of the response."""
    if hasattr(response, "results_by_topic"):
        return [p.partition_error_code for t in response.results_by_topic for p in t.results_by_partition]
    if hasattr(response, "responses"):
        return [p.error_code for t in response.responses for p in t.partition_responses]
    if hasattr(response, "topics"):
        return [p.error_code for t in response.topics for p in t.partitions]
    return [response.error_code]


def tell(address: tuple[str, int]) -> list[tuple[str, Response]]:
    """Steps with their responses."""
    teller = Teller(address)
    teller.socket.request(CreateTopicsRequest([CreatableTopic("t", 2, 1), CreatableTopic("u", 1, 1)]))
    for key, kind in (("x", 1), ("g", 0)):
        teller.ask(FindCoordinatorRequest(key, kind), 3)
    _identities(teller)
    _claims(teller)
    for version in range(4):
        _ends(teller, version)
        _partitions(teller, version)
    for version in range(5):
        _offsets(teller, version)
    teller.socket.close()
    return teller.responses


def _identities(teller: Teller) -> None:
    first = teller.tell("first", InitProducerIdRequest(None, 60_000)).producer_id
    claims = [(-1, -1), (0, 0), (first, 0), (first, 5), (5, -1), (-1, 0), (-2, -2), (10**12, 3), (7, 32_766)]
    for version, (producer_id, epoch) in product((3, 4, 5), [*claims, (7, LAST_EPOCH), (2**63 - 1, LAST_EPOCH)]):
        named = "first" if producer_id == first else producer_id
        request = InitProducerIdRequest(None, 60_000, producer_id, epoch)
        teller.tell(f"no name, claims {named}/{epoch} v{version}", request, version)
    for version, timeout_ms in product(range(6), (-(2**31), -1, 0, 1, 900_000, 900_001, 2**31 - 1)):
        at = f"timeout {timeout_ms} v{version}"
        teller.tell(f"no name, {at}", InitProducerIdRequest(None, timeout_ms), version)
        teller.tell(f"a name, {at}", InitProducerIdRequest(teller.new_name(), timeout_ms), version)
        teller.tell(f"empty name, {at}", InitProducerIdRequest("", timeout_ms), version)
    for producer_id, epoch in ((0, 0), (5, -1), (-1, 0), (10**12, 3), (7, LAST_EPOCH)):
        request = InitProducerIdRequest(teller.new_name(), 60_000, producer_id, epoch)
        teller.tell(f"a new name claims {producer_id}/{epoch}", request)


def _claims(teller: Teller) -> None:
    """Of a name whose epoch is 2, at rest and in a transaction: the claim, the same again, and without one."""
    claims = {"epoch": 2, "last epoch": 1, "older": 0, "next": 3, "last but one": 32_766, "last": LAST_EPOCH}
    cases = [(what, epoch, 0) for what, epoch in claims.items()] + [("other id", 2, UNKNOWN_ID)]
    for version, ongoing, (what, epoch, shift) in product((3, 5), (False, True), cases):
        name = teller.new_name()
        producer_id, current = [teller.producer(name) for _ in range(3)][-1]
        if ongoing:
            teller.ask(AddOffsetsToTxnRequest(name, producer_id, current, "claims"), 3)
        request = InitProducerIdRequest(name, 60_000, producer_id + shift, epoch)
        step = f"claims its {what}{' in a transaction' if ongoing else ''} v{version}"
        teller.tell(step, request, version)
        teller.tell(f"{step}, again", request, version)
        teller.tell(f"{step}, then claims nothing", InitProducerIdRequest(name, 60_000), version)


def _ends(teller: Teller, version: int) -> None:
    """EndTxn, AddOffsetsToTxn and AddPartitionsToTxn of right and wrong producers, before, in and after a transaction."""
    name = teller.new_name()
    producer_id, epoch = teller.producer(name)
    wrong: dict[str, tuple[str, int, int]] = {
        "itself": (name, producer_id, epoch),
        "no name": ("", producer_id, epoch),
        "unknown name": ("nobody", producer_id, epoch),
        "other id": (name, producer_id + UNKNOWN_ID, epoch),
        "id -1": (name, -1, epoch),
        "next epoch": (name, producer_id, epoch + 1),
        "epoch -1": (name, producer_id, -1),
        "last epoch": (name, producer_id, LAST_EPOCH),
    }
    for who, (named, claimed_id, claimed_epoch) in wrong.items():
        claim = (named, claimed_id, claimed_epoch)
        for committed in (True, False):
            teller.tell(f"EndTxn {committed} by {who} v{version}", EndTxnRequest(*claim, committed), version)
        teller.tell(f"AddOffsetsToTxn by {who} v{version}", AddOffsetsToTxnRequest(*claim, "g"), version)
        add = AddPartitionsToTxnRequest(*claim, [AddPartitionsToTxnTopic("t", [0])])
        teller.tell(f"AddPartitionsToTxn by {who} v{version}", add, version)
    for first, second in product((True, False), (True, False)):
        teller.ask(AddOffsetsToTxnRequest(name, producer_id, epoch, "g"), version)
        step = f"EndTxn {first} v{version}"
        teller.tell(step, EndTxnRequest(name, producer_id, epoch, first), version)
        teller.tell(f"{step}, then {second}", EndTxnRequest(name, producer_id, epoch, second), version)
    for group in ("", "g", "x" * 300):
        step = f"AddOffsetsToTxn for a group of {len(group)} letters v{version}"
        teller.tell(step, AddOffsetsToTxnRequest(name, producer_id, epoch, group), version)


def _partitions(teller: Teller, version: int) -> None:
    name = teller.new_name()
    producer = teller.producer(name)
    for wanted in (
        {"t": [9]},
        {"t": [-1]},
        {"nope": [0]},
        {"t": [0, 9], "nope": [0], "u": [0]},
        {"__consumer_offsets": [0], "t": [0]},
        {"__transaction_state": [0]},
        {"": [0]},
        {},
        {"t": [0, 1], "u": [0]},
    ):
        topics = [AddPartitionsToTxnTopic(topic, partitions) for topic, partitions in wanted.items()]
        teller.tell(
            f"AddPartitionsToTxn {wanted} v{version}", AddPartitionsToTxnRequest(name, *producer, topics), version
        )
        teller.tell(f"EndTxn after {wanted} v{version}", EndTxnRequest(name, *producer, False), version)


def _commit(name: str, group: str, producer: Producer, partition: int = 0, offset: int = 5) -> TxnOffsetCommitRequest:
    wanted = [TxnOffsetCommitRequestPartition(partition, offset, -1, "")]
    return TxnOffsetCommitRequest(name, group, *producer, topics=[TxnOffsetCommitRequestTopic("t", partitions=wanted)])


def _offsets(teller: Teller, version: int) -> None:
    """TxnOffsetCommit before, in and after a transaction, by the right producer, wrong ones and a fenced one."""
    name, group = teller.new_name(), f"g{version}"
    producer_id, epoch = producer = teller.producer(name)

    def tell(step: str, request: TxnOffsetCommitRequest) -> None:
        teller.tell(f"TxnOffsetCommit {step} v{version}", request, version)

    tell("of an unknown producer", _commit("nobody", group, (producer_id + UNKNOWN_ID, 0)))
    tell("without a name", _commit("", group, producer))
    tell("without a transaction", _commit(name, group, producer))
    for claim in ((-1, -1), (-1, 0), (producer_id, -1), (producer_id, epoch + 1), (producer_id + UNKNOWN_ID, epoch)):
        tell(f"claiming {claim[0] - producer_id if claim[0] > 0 else 'none'}/{claim[1]}", _commit(name, group, claim))
    teller.ask(AddPartitionsToTxnRequest(name, *producer, [AddPartitionsToTxnTopic("t", [0])]), 3)
    tell("with the group not added", _commit(name, group, producer))
    tell("for no group", _commit(name, "", producer))
    teller.ask(AddOffsetsToTxnRequest(name, *producer, group), 3)
    tell("of another name, first", _commit("nobody", group, producer))
    tell("of the next epoch, first", _commit(name, group, (producer_id, epoch + 1)))
    tell("of a partition that is not there", _commit(name, group, producer, 7))
    tell("in its transaction", _commit(name, group, producer))
    tell("of another name, later", _commit("nobody", group, producer))
    tell("without a name, later", _commit("", group, producer))
    _fetch(teller, group, "in the transaction")
    teller.ask(EndTxnRequest(name, *producer, True), 3)
    _settle(teller, group)
    _fetch(teller, group, "after its end")
    tell("after its end", _commit(name, group, producer, 0, 6))
    successor = teller.producer(name)
    tell("when it is fenced", _commit(name, group, producer, 0, 7))
    teller.ask(AddOffsetsToTxnRequest(name, *successor, group), 3)
    tell("when it is fenced and the successor has begun", _commit(name, group, producer, 0, 8))
    tell("of the successor", _commit(name, group, successor, 1, 9))
    teller.ask(EndTxnRequest(name, *successor, True), 3)
    _settle(teller, group)
    _fetch(teller, group, "after the successor's end")


def _committed(teller: Teller, group: str) -> list[list[Any]]:
    wanted = [OffsetFetchRequestTopic("t", [0, 1])]
    response = teller.ask(OffsetFetchRequest(group, wanted, require_stable=True), 7)
    partitions = [p for t in response.topics for p in t.partitions]
    return sorted([p.partition_index, p.committed_offset, error_of(p.error_code).name] for p in partitions)


def _settle(teller: Teller, group: str) -> None:
    """Until nothing is pending: markers follow a moment after EndTxn's response."""
    end_s = time.monotonic() + PATIENCE_S
    time.sleep(0.05)
    while time.monotonic() < end_s and "UNSTABLE_OFFSET_COMMIT" in str(_committed(teller, group)):
        time.sleep(0.02)


def _fetch(teller: Teller, group: str, when: str) -> None:
    teller.responses.append((f"offsets of {group} {when}", list(_committed(teller, group))))


def _record(version: str) -> None:
    from coterie_conformance.servers.kafka import running

    with tempfile.TemporaryDirectory() as folder, running(version, Path(folder) / "kafka", SETTINGS) as address:
        lines = [json.dumps(row) for row in tell(address)]
    (DATA / f"transaction-story-{version}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    for kafka_version in sys.argv[1:]:
        _record(kafka_version)
