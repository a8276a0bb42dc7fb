"""DescribeTopicPartitions page by page; the rows are Apache Kafka 4.3.0's responses."""

from __future__ import annotations

import pytest

from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.broker.connections.test_server import Client, broker, make_topic

NOBODY = "nobody-made-this"
P3 = [0, 1, 2]
OK, UNKNOWN, BAD = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_REQUEST
Row = tuple[ErrorCode, str, list[int]]

# topics asked for, limit, cursor -> topics, next cursor; p1 to p3 have three partitions each
ROWS: list[tuple[list[str], int, tuple[str, int] | None, list[Row], tuple[str, int] | None]] = [
    (["p1"], 2000, None, [(OK, "p1", P3)], None),
    (["p2", "p1", NOBODY, "p2"], 2000, None, [(UNKNOWN, NOBODY, []), (OK, "p1", P3), (OK, "p2", P3)], None),
    (["p1", "p2", "p3"], 4, None, [(OK, "p1", P3), (OK, "p2", [0])], ("p2", 1)),
    (["p1", "p2", "p3"], 3, None, [(OK, "p1", P3)], ("p2", 0)),
    (["p1", "p2", "p3"], 2000, ("p2", 1), [(OK, "p2", [1, 2]), (OK, "p3", P3)], None),
    (["p1", "p2"], 2, ("p1", 2), [(OK, "p1", [2]), (OK, "p2", [0])], ("p2", 1)),
    (["p1", "p3"], 5, ("p2", 1), [(BAD, "p1", []), (BAD, "p3", [])], None),
    ([], 4, None, [(OK, "p1", P3), (OK, "p2", [0])], ("p2", 1)),
    ([], 4, ("p1", 1), [(OK, "p1", [1, 2]), (OK, "p2", [0, 1])], ("p2", 2)),
    (["p1"], 0, None, [(OK, "p1", [0])], ("p1", 1)),
    (["p1"], -1, None, [(OK, "p1", [0])], ("p1", 1)),
    (["p1"], 2000, ("p1", 3), [(OK, "p1", [])], None),
    (["p1"], 2000, ("p1", -1), [(BAD, "p1", [])], None),
    ([NOBODY, "p1"], 1, None, [(UNKNOWN, NOBODY, []), (OK, "p1", [0])], ("p1", 1)),
    (["p1", "zz"], 3, None, [(OK, "p1", P3)], ("zz", 0)),
    (["p1"], 2000, ("zz", 0), [(BAD, "p1", [])], None),
    (["p1", "zz"], 2000, ("zz", 1), [(UNKNOWN, "zz", [])], None),
    (["a b"], 2000, None, [(ErrorCode.INVALID_TOPIC_EXCEPTION, "a b", [])], None),
]


async def describe(
    client: Client, names: list[str], limit: int, cursor: tuple[str, int] | None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        [TopicRequest(n) for n in names], limit, Cursor(*cursor) if cursor else None
    )
    return await client.ask(request, DescribeTopicPartitionsResponse, 0)


def rows(response: DescribeTopicPartitionsResponse) -> list[tuple[int, str | None, list[int]]]:
    return [(t.error_code, t.name, [p.partition_index for p in t.partitions]) for t in response.topics]


@pytest.mark.parametrize(("names", "limit", "cursor", "expected", "next_cursor"), ROWS)
async def test_pages_are_those_of_kafka(
    names: list[str],
    limit: int,
    cursor: tuple[str, int] | None,
    expected: list[Row],
    next_cursor: tuple[str, int] | None,
) -> None:
    async with broker() as connect:
        client = await connect()
        for name in ("p3", "p1", "p2"):
            await make_topic(client, name, 3)
        response = await describe(client, names, limit, cursor)
        assert rows(response) == expected
        assert response.next_cursor == (Cursor(*next_cursor) if next_cursor else None)


async def test_a_partition_is_described_whole_and_cursors_lead_through_all_topics() -> None:
    async with broker(max_request_partition_size_limit="2") as connect:
        client = await connect()
        for name in ("p1", "p2"):
            await make_topic(client, name, 3)
        seen, cursor, pages = [], None, 0
        while pages == 0 or cursor:
            response = await describe(client, [], 2000, cursor)
            seen += [(t.name, p) for t in response.topics for p in t.partitions]
            pages += 1
            after = response.next_cursor
            cursor = None if after is None else (after.topic_name, after.partition_index)
        assert [(name, p.partition_index) for name, p in seen] == [(n, i) for n in ("p1", "p2") for i in P3]
        assert pages == 3
        for _, p in seen:
            assert (p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes) == (1, 0, [1], [1])
            assert (p.eligible_leader_replicas, p.last_known_elr, p.offline_replicas) == ([], [], [])
        assert {t.topic_authorized_operations for t in response.topics} == {3576}
