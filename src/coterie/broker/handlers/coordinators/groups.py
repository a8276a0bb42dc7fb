"""Groups: requests of members, which the core decides, and requests that describe, list, explain and delete groups."""

from __future__ import annotations

import json
from collections.abc import Generator

from coterie.broker.groups.explanation import explained, unserved
from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.handlers.access.access import GROUP_OPERATIONS
from coterie.broker.handlers.coordinators.share_states import delete_share_group
from coterie.broker.handlers.services import DeletionServices, GroupServices, Handler
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import CheckAppend, Pending
from coterie.broker.requests.turns import distinct
from coterie.coordinator.commands import Command, DeleteGroup
from coterie.coordinator.refusals import refuse
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.views.classic_group import describe_group, list_group
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.groups.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from coterie.wire.messages.groups.explain_group import ExplainGroupRequest, ExplainGroupResponse
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, is_without_protocol


def hand_over(groups: GroupCoordinator, command: Command, call: Call, check: CheckAppend | None = None) -> Pending:
    """Hands a request over to the group coordinator; the response may be there at once. ``check``: before its records are
    appended."""
    pending = Pending()
    if check is not None:
        pending.check_append = check
    groups.submit(command, pending, call.api_version, call.client_id, call.connection.host)
    return pending


def handle_join_group(broker: GroupServices, request: JoinGroupRequest, call: Call) -> Message | Pending:
    """INVALID_REQUEST for metadata that no batch of `__consumer_offsets` could hold; otherwise the core decides
    (`coordinator/classic/join.py`)."""
    longest = max([len(p.metadata) for p in request.protocols], default=0)
    limit = broker.settings.topic_defaults.max_message_bytes
    if longest > limit:  # Kafka returns an unknown error to the SyncGroup, once it cannot store the generation
        text = "refusing a member of group %r: %d bytes of metadata, which no batch holds; message.max.bytes is %d"
        broker.log_lines.warning(text, request.group_id, longest, limit)
        return refuse(request, ErrorCode.INVALID_REQUEST)
    return hand_over(broker.groups, request, call)


def handle_sync_group(broker: GroupServices, request: SyncGroupRequest, call: Call) -> Message | Pending:
    """INCONSISTENT_GROUP_PROTOCOL where a version that must name the protocol does not; otherwise the core decides
    (`coordinator/classic/sync.py`)."""
    if is_without_protocol(request, call.api_version):
        return refuse(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)  # KIP-559
    return hand_over(broker.groups, request, call)


def handle_heartbeat(broker: GroupServices, request: HeartbeatRequest, call: Call) -> Pending:
    return hand_over(broker.groups, request, call)


def handle_leave_group(broker: GroupServices, request: LeaveGroupRequest, call: Call) -> Pending:
    return hand_over(broker.groups, request, call)


def handle_describe_groups(broker: GroupServices, request: DescribeGroupsRequest, call: Call) -> Message | Pending:
    """Each group once; an unknown one is Dead, or from version 6 on GROUP_ID_NOT_FOUND (KIP-1043)."""
    return broker.turns.run(_describe_groups(broker, request, call))


def _describe_groups(
    broker: GroupServices, request: DescribeGroupsRequest, call: Call
) -> Generator[None, None, Message]:
    response = DescribeGroupsResponse()
    for group_id in distinct(request.groups, str):
        yield
        try:
            response.groups.append(describe_group(broker.groups.group(group_id), group_id, call.api_version))
        except Refusal as refusal:
            response.groups.append(DescribedGroup(refusal.code, group_id=group_id))
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return response


def handle_explain_group(broker: GroupServices, request: ExplainGroupRequest, call: Call) -> ExplainGroupResponse:
    """An API of coterie's own (`wire/messages/groups/explain_group.py`). GROUP_ID_NOT_FOUND; COORDINATOR_LOAD_IN_PROGRESS. A
    group whose commits may be lost has a verdict alone."""
    try:
        group = broker.groups.group(request.group_id)
    except Refusal as refusal:
        if refusal.code == ErrorCode.NOT_COORDINATOR and refusal.message:
            document = unserved(request.group_id, refusal.message)
            return ExplainGroupResponse(ErrorCode.NONE, json.dumps(document).encode())
        return ExplainGroupResponse(refusal.code)
    if group is None:
        return ExplainGroupResponse(ErrorCode.GROUP_ID_NOT_FOUND)
    return ExplainGroupResponse(ErrorCode.NONE, json.dumps(explained(broker, group)).encode())


def handle_list_groups(broker: GroupServices, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    """Filters ignore case, as Kafka's. COORDINATOR_LOAD_IN_PROGRESS while any partition loads."""
    states = {s.lower() for s in request.states_filter}
    types = {t.lower() for t in request.types_filter}
    try:
        listed = [list_group(group) for group in broker.groups.groups()]
    except Refusal as refusal:
        return ListGroupsResponse(error_code=refusal.code)
    wanted = (g for g in listed if not states or g.group_state.lower() in states)
    return ListGroupsResponse(groups=[g for g in wanted if not types or g.group_type in types])


def handle_delete_groups(
    broker: DeletionServices, request: DeleteGroupsRequest, call: Call
) -> DeleteGroupsResponse | Pending:
    """One command per group; the response is sent once the last deletion is durable."""
    pending, results = Pending(), dict[str, DeletableGroupResult]()

    def one_done(part: Pending) -> None:
        assert isinstance(part.response, DeleteGroupsResponse)
        (result,) = part.response.results
        results[result.group_id] = result
        if len(results) == len(wanted):
            pending.respond(DeleteGroupsResponse(results=[results[group_id] for group_id in wanted]))

    wanted = dict.fromkeys(request.groups_names)
    if not wanted:
        return DeleteGroupsResponse()
    for group_id in wanted:
        part = _deleted(broker, group_id, call)
        if part.response is not None:
            one_done(part)
        else:
            part.notify = lambda part=part: one_done(part)
    return pending


def _deleted(broker: DeletionServices, group_id: str, call: Call) -> Pending:
    try:
        group = broker.groups.group(group_id)
    except Refusal:
        group = None  # the command is refused as well
    if isinstance(group, ShareGroup):
        return delete_share_group(broker, group)
    return hand_over(broker.groups, DeleteGroup(group_id), call)


HANDLERS: dict[int, Handler] = {
    11: handle_join_group,
    12: handle_heartbeat,
    13: handle_leave_group,
    14: handle_sync_group,
    15: handle_describe_groups,
    16: handle_list_groups,
    42: handle_delete_groups,
    30000: handle_explain_group,
}
