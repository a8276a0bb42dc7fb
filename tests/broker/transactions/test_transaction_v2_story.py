"""Every response of the story of a producer of version 2, and every state in `__transaction_state`, is that of Apache
Kafka 4.3.0. Every response of the story of producers is that of Apache Kafka 3.9.1 or of 4.3.0, where the two differ."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from coterie.coordinator.transactions.state import Transaction, decode_transaction
from coterie.records.batch import batches
from coterie.records.decoding import decode_keys_and_values
from coterie.testing import LocalBroker
from tests.broker.transactions import transaction_story
from tests.broker.transactions.transaction_story import DATA, SETTINGS, Response
from tests.broker.transactions.transaction_v2_story import tell

KAFKA: dict[str, list[Any]] = json.loads((DATA / "transaction-v2-story-4.3.0.json").read_text())


def stored(broker: LocalBroker) -> list[tuple[bytes, bytes]]:
    """The keys and values of `__transaction_state`."""
    (partition,) = broker.broker.topics.transactions_topic().partitions
    data = partition.log.read(0, 1_000_000)
    return [
        (key or b"", value or b"")
        for at, header in batches(data)
        for key, value, _ in decode_keys_and_values(data, at, header)
    ]


def compared(states: list[tuple[bytes, bytes]]) -> list[Transaction]:
    """Without times, and with producer ids that begin with 0."""
    decoded = [decode_transaction(key, value) for key, value in states]
    first = decoded[0].producer_id
    return [
        replace(
            t,
            producer_id=t.producer_id - first,
            previous_producer_id=t.previous_producer_id - first,
            updated_ms=0,
            started_ms=min(t.started_ms, 0),
        )
        for t in decoded
    ]


def test_a_producer_of_version_2_is_answered_as_by_kafka() -> None:
    theirs = [(bytes.fromhex(key), bytes.fromhex(value)) for key, value in KAFKA["states"]]
    with LocalBroker(SETTINGS) as broker:
        assert tell((broker.host, broker.port)) == KAFKA["answers"]
        ours = broker._call(lambda: stored(broker))
    assert compared(ours) == compared(theirs)


def test_the_states_that_kafka_wrote_are_written_as_they_were() -> None:
    assert len(KAFKA["states"]) == 30
    for key, value in KAFKA["states"]:
        state = decode_transaction(bytes.fromhex(key), bytes.fromhex(value))
        assert (state.key().hex(), state.value(2).hex()) == (key, value)


def kafka(version: str) -> list[tuple[str, Response]]:
    return [tuple(row) for row in json.loads((DATA / f"transaction-story-{version}.json").read_text())]


def test_producers_are_answered_as_by_kafka() -> None:
    with LocalBroker(transaction_story.SETTINGS) as broker:
        ours = transaction_story.tell((broker.host, broker.port))
    theirs = zip(kafka("3.9.1"), kafka("4.3.0"), strict=True)
    different = []
    for (step, response), ((step_3, response_3), (step_4, response_4)) in zip(ours, theirs, strict=True):
        assert step == step_3 == step_4
        if response not in (response_3, response_4):
            different.append(f"{step}\n  coterie: {response}\n  3.9.1: {response_3}\n  4.3.0: {response_4}")
    assert not different, "\n".join(different)
