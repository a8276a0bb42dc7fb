"""A share session spoken by hand: ShareFetch and ShareAcknowledge of one topic at one broker, without heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coterie.client.connection.connection import Connection
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from coterie.wire.messages.share.share_acknowledge import (
    AcknowledgedPartition,
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from coterie.wire.messages.share.share_fetch import (
    ForgottenShareTopic,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchTopic,
    SharePartitionData,
)

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
LIMIT_S = 600.0
Acks = Mapping[int, Sequence[tuple[int, ...]]]  # by partition: first and last offset, types


@dataclass
class RawShareMember:
    """``epoch``: of its next request; ``options`` are fields of its fetches."""

    connection: Connection
    topic_id: bytes
    member_id: str
    group_id: str | None
    epoch: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    timeout_s: float = LIMIT_S

    async def fetch(
        self,
        partitions: Sequence[int] = (),
        acks: Acks | None = None,
        forget: Sequence[int] = (),
        **options: Any,
    ) -> ShareFetchResponse:
        """One request of the session."""
        wanted: dict[int, list[AcknowledgementBatch]] = {p: [] for p in partitions}
        wanted |= {p: _batches(of) for p, of in (acks or {}).items()}
        rows = [ShareFetchPartition(p, batches) for p, batches in wanted.items()]
        fields = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500} | self.options | options
        request = ShareFetchRequest(
            self.group_id,
            self.member_id,
            fields.pop("epoch", self.epoch),
            topics=[ShareFetchTopic(self.topic_id, rows)] if rows else [],
            forgotten_topics_data=[ForgottenShareTopic(self.topic_id, list(forget))] if forget else [],
            **fields,
        )
        response = await self.connection.request(request, ShareFetchResponse, self.timeout_s)
        if not response.error_code and self.epoch >= 0:
            self.epoch += 1
        return response

    async def acknowledge(self, acks: Acks, **options: Any) -> ShareAcknowledgeResponse:
        """One request of the session that fetches nothing."""
        rows = [AcknowledgePartition(p, _batches(of)) for p, of in acks.items()]
        epoch = options.pop("epoch", self.epoch)
        topics = [AcknowledgeTopic(self.topic_id, rows)]
        request = ShareAcknowledgeRequest(self.group_id, self.member_id, epoch, topics=topics, **options)
        response = await self.connection.request(request, ShareAcknowledgeResponse, self.timeout_s)
        if not response.error_code and self.epoch >= 0:
            self.epoch += 1
        return response

    async def acquired(self, partitions: Sequence[int] = (), **options: Any) -> list[tuple[int, int, int, int]]:
        """What a fetch acquired: partition, first and last offset, delivery count."""
        return acquired(await self.fetch(partitions, **options))


def _batches(acks: Sequence[tuple[int, ...]]) -> list[AcknowledgementBatch]:
    return [AcknowledgementBatch(first, last, kinds) for first, last, *kinds in acks]


def parts(response: ShareFetchResponse) -> dict[int, SharePartitionData]:
    """A response's partitions, by index."""
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def acknowledged(response: ShareAcknowledgeResponse) -> dict[int, AcknowledgedPartition]:
    """A response's partitions, by index."""
    return {data.partition_index: data for topic in response.responses for data in topic.partitions}


def acquired(response: ShareFetchResponse) -> list[tuple[int, int, int, int]]:
    """Of a response without an error: partition, first and last offset, delivery count."""
    assert response.error_code == 0, response.error_code
    return [
        (index, part.first_offset, part.last_offset, part.delivery_count)
        for index, data in sorted(parts(response).items())
        for part in data.acquired_records
    ]


async def initialize_states(
    connection: Connection, group_id: str, topic_id: bytes, partitions: int, start_offset: int = 0, state_epoch: int = 1
) -> list[int]:
    """As the group coordinator does it when a member joins; returns the error codes."""
    rows = [InitializedPartition(p, state_epoch, start_offset) for p in range(partitions)]
    request = InitializeShareGroupStateRequest(group_id, [InitializedTopic(topic_id, rows)])
    response = await connection.request(request, InitializeShareGroupStateResponse, LIMIT_S)
    return [p.error_code for topic in response.results for p in topic.partitions]
