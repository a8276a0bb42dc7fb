"""An assignment that not all replicas in sync have: its member does not get it by repeating its request either."""

from __future__ import annotations

import asyncio

from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.awaiting import quiet, until
from tests.broker.cluster.replicas.test_replicated_writes import LONG_MS, ME, OTHER, fetched, lead, one_of_two
from tests.broker.connections.test_server import Client, run


def join(client: Client) -> asyncio.Task[ConsumerGroupHeartbeatResponse]:
    request = ConsumerGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=["t"], topic_partitions=[])
    request.rebalance_timeout_ms = LONG_MS
    return asyncio.create_task(client.ask(request, ConsumerGroupHeartbeatResponse, 1))


def test_a_member_that_joins_again_waits_for_the_replicas_in_sync_as_well() -> None:
    """The next coordinator, which lacks the assignment, would give the same partitions to another member."""

    async def story() -> None:
        async with one_of_two() as (broker, client, _, offsets):
            leader = lead(broker, offsets, (ME, OTHER))
            await broker.groups.loaded()
            address = client.writer.get_extra_info("peername")
            again = Client(*await asyncio.open_connection(*address))
            first = join(client)
            await until(lambda: offsets.log.end_offset)
            end_offset = offsets.log.end_offset
            second = join(again)
            try:
                await quiet()
                assert offsets.log.end_offset == end_offset, "nothing is decided a second time"
                assert (first.done(), second.done()) == (False, False)
                fetched(broker, leader)
                for response in (await first, await second):
                    assert (response.error_code, response.assignment is not None) == (ErrorCode.NONE, True)
            finally:
                first.cancel()
                second.cancel()
                again.writer.close()

    run(story)
