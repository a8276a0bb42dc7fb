"""Every response of the story of producers is that of Apache Kafka 3.9.1 or of 4.3.0, where the two differ."""

from __future__ import annotations

import json

from coterie.testing import LocalBroker
from tests.broker.transactions import transaction_story
from tests.broker.transactions.transaction_story import DATA, Response


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
