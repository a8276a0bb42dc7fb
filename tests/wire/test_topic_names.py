"""The table of versions that name topics agrees with the declared messages."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from coterie.wire import topic_names
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequestTopic
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequestTopics
from coterie.wire.messages.logs.fetch import FetchTopic
from coterie.wire.messages.logs.produce import TopicProduceData


@pytest.mark.parametrize(
    ("topic", "last"),
    [
        (FetchTopic, topic_names.FETCH),
        (TopicProduceData, topic_names.PRODUCE),
        (OffsetCommitRequestTopic, topic_names.OFFSET_COMMIT),
        (OffsetFetchRequestTopics, topic_names.OFFSET_FETCH),
    ],
)
def test_ids_follow_names(topic: Any, last: int) -> None:
    fields = {field.name: field.metadata["versions"] for field in dataclasses.fields(topic)}
    names = fields.get("topic") or fields["name"]
    assert last in names
    assert last + 1 not in names
    assert last not in fields["topic_id"]
    assert last + 1 in fields["topic_id"]
