"""Share groups (KIP-932): heartbeats and descriptions, and the offsets of groups, described, altered and deleted.

States of partitions are the share coordinator's: their requests come between what the group stores before and after."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from coterie.broker.handlers.access.access import GROUP_OPERATIONS
from coterie.broker.handlers.coordinators.groups import hand_over
from coterie.broker.handlers.coordinators.share_states import after, states_request
from coterie.broker.handlers.services import Handler, ShareServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import distinct
from coterie.broker.settings.features import SHARE_VERSION
from coterie.broker.share_state.end_offsets import Ends
from coterie.coordinator.commands import StatesDeleted, StatesInitialized
from coterie.coordinator.refusals import response_with
from coterie.coordinator.share.state import ShareGroup, StatePartitions
from coterie.coordinator.share_state.state import NO_COUNT, NO_OFFSET
from coterie.coordinator.views.share_group import describe_share_group
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.share import describe_share_group_offsets as described
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from coterie.wire.messages.share.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from coterie.wire.messages.share.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from coterie.wire.messages.share.initialize_share_group_state import (
    InitializedPartition,
    InitializedTopic,
    InitializeShareGroupStateRequest,
)
from coterie.wire.messages.share.read_share_group_state import ReadStatePartition, ReadStateTopic
from coterie.wire.messages.share.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from coterie.wire.messages.share.share_group_describe import (
    DescribedShareGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from coterie.wire.primitives import java_long

PROTOCOL = "share"
_MAX_MEMBER_ID = 36  # Kafka's KafkaApis.isMemberIdValid


def is_enabled(broker: ShareServices) -> bool:
    """By the feature share.version (Kafka's isShareGroupProtocolEnabled)."""
    enabled = PROTOCOL in broker.settings.current.group_coordinator_rebalance_protocols
    return enabled or broker.features.level(SHARE_VERSION) >= 1


def handle_share_group_heartbeat(
    broker: ShareServices, request: ShareGroupHeartbeatRequest, call: Call
) -> Message | Pending:
    """UNSUPPORTED_VERSION where the protocol is not enabled, INVALID_REQUEST for no member id or a long one, both without a
    text as Kafka's; otherwise the core decides."""
    if not is_enabled(broker):
        return response_with(request, ErrorCode.UNSUPPORTED_VERSION)
    if not 0 < len(request.member_id) <= _MAX_MEMBER_ID:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)
    return hand_over(broker.groups, request, call)


def handle_share_group_describe(
    broker: ShareServices, request: ShareGroupDescribeRequest, call: Call
) -> Message | Pending:
    """Each group once: UNSUPPORTED_VERSION, INVALID_GROUP_ID, or GROUP_ID_NOT_FOUND of the core."""
    return broker.turns.run(_describe(broker, request))


def _describe(broker: ShareServices, request: ShareGroupDescribeRequest) -> Generator[None, None, Message]:
    response = ShareGroupDescribeResponse()
    for group_id in distinct(request.group_ids, str):
        yield
        group = _described(broker, group_id)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
        response.groups.append(group)
    return response


def _described(broker: ShareServices, group_id: str) -> DescribedShareGroup:
    if not is_enabled(broker):
        return DescribedShareGroup(ErrorCode.UNSUPPORTED_VERSION, group_id=group_id)
    if not group_id:
        return DescribedShareGroup(ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    try:
        group = broker.groups.group(group_id)
    except Refusal as refusal:
        return DescribedShareGroup(refusal.code, group_id=group_id)
    return describe_share_group(group, group_id, broker.groups.topics_view.image())


# -- offsets ------------------------------------------------------------------------------------------------------------


def handle_describe_share_group_offsets(
    broker: ShareServices, request: DescribeShareGroupOffsetsRequest, call: Call
) -> Message | Pending:
    """Start offset, leader epoch and lag of the partitions of groups; null topics: of all that have a state."""
    groups, pending = list(request.groups), Pending()
    rows: dict[int, described.DescribeShareGroupOffsetsResponseGroup] = {}

    def done(index: int, row: described.DescribeShareGroupOffsetsResponseGroup) -> None:
        rows[index] = row
        if len(rows) == len(groups):
            ordered = [rows[at] for at in range(len(groups))]
            pending.respond(described.DescribeShareGroupOffsetsResponse(groups=ordered))

    if not groups:
        return described.DescribeShareGroupOffsetsResponse()
    for index, group in enumerate(groups):
        describe_offsets(broker, group, partial(done, index))
    return pending


def describe_offsets(
    broker: ShareServices,
    requested: described.DescribeShareGroupOffsetsRequestGroup,
    done: Callable[[described.DescribeShareGroupOffsetsResponseGroup], None],
) -> None:
    """``done`` gets the response about one group, perhaps before this returns."""
    row, topics = described.DescribeShareGroupOffsetsResponseGroup(requested.group_id), []
    image = broker.groups.topics_view.image()
    try:
        if not is_enabled(broker):
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
        if requested.topics is None:
            group = broker.groups.group(requested.group_id)
            states = group.states if isinstance(group, ShareGroup) else None
            known = {topic.topic_id for topic in image.topics.values()}
            ready = {} if states is None else states.initialized
            topics = [(t, sorted(topic.partitions)) for t, topic in ready.items() if t in known]
    except Refusal as refusal:
        row.error_code, row.error_message = refusal.code, refusal.message
        done(row)
        return
    unknown = []
    for topic in requested.topics or ():
        if topic.topic_name in image.topics:
            topics.append((image.topics[topic.topic_name].topic_id, topic.partitions))
        else:
            kind = described.DescribeShareGroupOffsetsResponsePartition
            absent = [kind(number, start_offset=-1) for number in topic.partitions]
            unknown.append(described.DescribeShareGroupOffsetsResponseTopic(topic.topic_name, bytes(16), absent))
    read = [ReadStateTopic(t, [ReadStatePartition(number) for number in numbers]) for t, numbers in topics]

    def responded(response: Any) -> None:
        names = {topic.topic_id: topic.name for topic in image.topics.values()}
        summaries = [(names[result.topic_id], result) for result in response.results]
        behind = [(name, row.partition) for name, result in summaries for row in result.partitions if _has_lag(row)]
        broker.share_ends.look_up(behind, partial(finished, summaries))

    def finished(summaries: list[tuple[str, Any]], ends: Ends) -> None:
        for name, result in summaries:
            partitions = [_offset_row(summary, ends.get((name, summary.partition))) for summary in result.partitions]
            row.topics.append(described.DescribeShareGroupOffsetsResponseTopic(name, result.topic_id, partitions))
        row.topics += unknown
        done(row)

    if read:
        broker.share_persister.send(ReadShareGroupStateSummaryRequest(requested.group_id, read), responded)
    else:
        row.topics = unknown
        done(row)


def _has_lag(summary: Any) -> bool:
    """Not before the first fetch."""
    return not summary.error_code and summary.start_offset != NO_OFFSET and summary.delivery_complete_count != NO_COUNT


def _offset_row(summary: Any, end: int | Refusal | None) -> described.DescribeShareGroupOffsetsResponsePartition:
    """The lag is what is after the start offset and not done with, in 64 bits as in Kafka; -1 without an ``end``."""
    row = described.DescribeShareGroupOffsetsResponsePartition(summary.partition, -1)
    if isinstance(end, Refusal):
        return described.DescribeShareGroupOffsetsResponsePartition(
            summary.partition, error_code=end.code, error_message=end.code.text
        )
    if not summary.error_code:
        row.start_offset, row.leader_epoch = summary.start_offset, summary.leader_epoch
    if end is not None:
        row.lag = java_long(end - summary.start_offset - summary.delivery_complete_count)
    return row


def handle_alter_share_group_offsets(
    broker: ShareServices, request: AlterShareGroupOffsetsRequest, call: Call
) -> Message | Pending:
    """The group notes what is to be initialized, the share coordinator does, and the group notes that it has."""
    if not is_enabled(broker):
        return response_with(request, ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id:
        return response_with(request, ErrorCode.INVALID_GROUP_ID)
    offsets = {(t.topic_name, p.partition_index): p.start_offset for t in request.topics for p in t.partitions}
    return after(
        hand_over(broker.groups, request, call), partial(_initialize_altered, broker, request.group_id, offsets)
    )


def _initialize_altered(
    broker: ShareServices,
    group_id: str,
    offsets: dict[tuple[str, int], int],
    response: AlterShareGroupOffsetsResponse,
    outer: Pending,
) -> None:
    if response.error_code:
        outer.respond(response)
        return
    group = broker.groups.group(group_id)
    epoch = group.group_epoch if isinstance(group, ShareGroup) else 0
    topics = [
        InitializedTopic(
            topic.topic_id,
            [
                InitializedPartition(p.partition_index, epoch, offsets[topic.topic_name, p.partition_index])
                for p in topic.partitions
                if not p.error_code
            ],
        )
        for topic in response.responses
    ]
    topics = [topic for topic in topics if topic.partitions]
    if not topics:
        outer.respond(response)
        return

    def responded(result: Any) -> None:
        errors = {(t.topic_id, p.partition): p for t in result.results for p in t.partitions if p.error_code}
        for topic in response.responses:
            for partition in topic.partitions:
                failed = errors.get((topic.topic_id, partition.partition_index))
                if failed is not None:
                    partition.error_code, partition.error_message = failed.error_code, failed.error_message
        if errors:
            outer.respond(response)
            return
        numbers = {t.topic_id: frozenset(p.partition for p in t.partitions) for t in topics}
        stored = StatesInitialized(group_id, numbers, response=response)
        broker.groups.submit(stored, outer, 0, "", "")

    broker.share_persister.send(InitializeShareGroupStateRequest(group_id, topics), responded)


def handle_delete_share_group_offsets(
    broker: ShareServices, request: DeleteShareGroupOffsetsRequest, call: Call
) -> Message | Pending:
    """The group notes what is to be deleted, the share coordinator does, and the group notes that it has."""
    if not is_enabled(broker):
        return response_with(request, ErrorCode.UNSUPPORTED_VERSION)
    if not request.group_id:
        return response_with(request, ErrorCode.INVALID_GROUP_ID)
    try:
        group = broker.groups.group(request.group_id)
    except Refusal as refusal:
        return response_with(request, refusal.code, refusal.message)
    states = group.states if isinstance(group, ShareGroup) else None
    return after(
        hand_over(broker.groups, request, call),
        partial(_delete_states, broker, request.group_id, states or StatePartitions()),
    )


def _delete_states(
    broker: ShareServices,
    group_id: str,
    states: StatePartitions,
    response: DeleteShareGroupOffsetsResponse,
    outer: Pending,
) -> None:
    wanted = {topic.topic_id: topic for topic in response.responses if not topic.error_code}
    if response.error_code or not wanted:
        outer.respond(response)
        return

    def responded(result: Any) -> None:
        for topic in result.results:
            failed = next((p for p in topic.partitions if p.error_code), None)
            if failed is not None:
                code = error_of(failed.error_code)
                wanted[topic.topic_id].error_code, wanted[topic.topic_id].error_message = code, code.text
        gone = frozenset(topic_id for topic_id, topic in wanted.items() if not topic.error_code)
        broker.groups.submit(StatesDeleted(group_id, gone, response), outer, 0, "", "")

    broker.share_persister.send(states_request(broker.groups, group_id, states, wanted), responded)


HANDLERS: dict[int, Handler] = {
    76: handle_share_group_heartbeat,
    77: handle_share_group_describe,
    90: handle_describe_share_group_offsets,
    91: handle_alter_share_group_offsets,
    92: handle_delete_share_group_offsets,
}
