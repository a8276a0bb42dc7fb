"""Where share groups are in their partitions; share coordinators, here or on other brokers, have it, so a page waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from functools import partial

from coterie.broker.groups.explanation import ShareOffset, ShareOffsets
from coterie.broker.handlers.coordinators.share_groups import describe_offsets
from coterie.broker.handlers.services import ShareServices
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.share_state.state import NO_OFFSET
from coterie.wire.messages.share.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
)

WAIT_S = 2.0  # then a page has what there is


async def share_offsets(broker: ShareServices, groups: Iterable[AnyGroup]) -> dict[str, ShareOffsets]:
    """Of each share group among ``groups``, by its id; one whose coordinator does not respond in time is left out."""
    offsets: dict[str, ShareOffsets] = {}
    everything = asyncio.Event()
    waiting = {group.group_id for group in groups if isinstance(group, ShareGroup)}

    def described(group_id: str, response: DescribeShareGroupOffsetsResponseGroup) -> None:
        offsets[group_id] = {
            (topic.topic_name, row.partition_index): ShareOffset(row.start_offset, None if row.lag < 0 else row.lag)
            for topic in response.topics
            for row in topic.partitions
            if not row.error_code and row.start_offset != NO_OFFSET
        }
        waiting.discard(group_id)
        if not waiting:
            everything.set()

    for group_id in sorted(waiting):
        describe_offsets(broker, DescribeShareGroupOffsetsRequestGroup(group_id, None), partial(described, group_id))
    if waiting:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await everything.wait()
    return dict(offsets)
