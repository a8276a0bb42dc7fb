"""Leader epochs and refusals in requests for records, as Apache Kafka 3.9.1 and 4.3.0 answered the same requests."""

from __future__ import annotations

import pytest

from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.connections.test_server import broker
from tests.broker.handlers.test_old_versions import append, batch, create, fetch


@pytest.mark.parametrize(
    ("epoch", "received"),
    [(0, (0, 2)), (1, (-1, -1)), (-1, (-1, -1)), (-5, (-5, 0))],
    ids=["own", "later", "none", "earlier"],
)
async def test_where_an_epoch_ends(epoch: int, received: tuple[int, int]) -> None:
    async with broker() as connect:
        client = await connect()
        await create(client, "t")
        await append(client, batch(b"a", b"b"))
        topics = [OffsetForLeaderTopic("t", [OffsetForLeaderPartition(0, leader_epoch=epoch)])]
        response = await client.ask(OffsetForLeaderEpochRequest(topics=topics), OffsetForLeaderEpochResponse, 3)
        end = response.topics[0].partitions[0]
        assert (end.error_code, end.leader_epoch, end.end_offset) == (ErrorCode.NONE, *received)


@pytest.mark.parametrize(("epoch", "code"), [(-2, 0), (-1, 0), (0, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_fetch_with_a_leader_epoch(epoch: int, code: int) -> None:
    """A negative one is none."""
    async with broker() as connect:
        client = await connect()
        await create(client, "t")
        await append(client, batch(b"a"))
        requested = FetchPartition(0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1000)
        request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic("t", partitions=[requested])])
        data = (await client.ask(request, FetchResponse, 12)).responses[0].partitions[0]
        assert data.error_code == code
        assert (data.high_watermark == -1, data.records == b"") == (bool(code), bool(code))


async def test_what_a_refused_partition_holds() -> None:
    """Nothing but -1, and no records where they are there but cannot be read by the client (Fetch 3 has no transactions)."""
    async with broker() as connect:
        client = await connect()
        await create(client, "t", compression_type="zstd")
        await append(client, batch(b"a"))
        beyond, unreadable = await fetch(client, 11, 9), await fetch(client, 3)
        for data in (beyond, unreadable):
            assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
        assert (beyond.error_code, beyond.records, beyond.aborted_transactions) == (1, b"", None)
        assert (unreadable.error_code, unreadable.records, unreadable.aborted_transactions) == (76, None, [])
