"""The states of share groups at the share coordinator (KIP-932): requests to it, which initialize, read, write, delete and
summarize them, and their deletion by themselves or with the group. Each partition has its own result; without a group, a topic
or a partition there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.handlers.services import Handler, ShareServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.coordinator.commands import Command, DeleteGroup, StatesDeleting
from coterie.coordinator.share.state import ShareGroup, StatePartitions
from coterie.wire.declaration import Message
from coterie.wire.errors import error_of
from coterie.wire.messages.groups.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from coterie.wire.messages.share.delete_share_group_state import (
    DeletedStatePartition,
    DeletedStateTopic,
    DeleteShareGroupStateRequest,
)
from coterie.wire.messages.share.initialize_share_group_state import InitializeShareGroupStateRequest
from coterie.wire.messages.share.read_share_group_state import ReadShareGroupStateRequest
from coterie.wire.messages.share.read_share_group_state_summary import ReadShareGroupStateSummaryRequest
from coterie.wire.messages.share.write_share_group_state import WriteShareGroupStateRequest


def _submit(broker: ShareServices, request: Message) -> Message | Pending:
    def work() -> Work:
        pending = Pending()
        yield from broker.share_coordinator.submitting(request, pending.respond)
        return pending

    return broker.turns.run(work())


def handle_initialize_share_group_state(
    broker: ShareServices, request: InitializeShareGroupStateRequest, call: Call
) -> Message | Pending:
    return _submit(broker, request)


def handle_read_share_group_state(
    broker: ShareServices, request: ReadShareGroupStateRequest, call: Call
) -> Message | Pending:
    return _submit(broker, request)


def handle_write_share_group_state(
    broker: ShareServices, request: WriteShareGroupStateRequest, call: Call
) -> Message | Pending:
    return _submit(broker, request)


def handle_delete_share_group_state(
    broker: ShareServices, request: DeleteShareGroupStateRequest, call: Call
) -> Message | Pending:
    return _submit(broker, request)


def handle_read_share_group_state_summary(
    broker: ShareServices, request: ReadShareGroupStateSummaryRequest, call: Call
) -> Message | Pending:
    return _submit(broker, request)


def after(first: Pending, then: Callable[[Any, Pending], None]) -> Pending:
    """A response that ``then`` sends, with that of ``first``."""
    outer = Pending()

    def responded() -> None:
        if first.failure is not None:
            outer.fail(first.failure)
        else:
            then(first.response, outer)

    if first.response is not None:
        responded()
    else:
        first.notify = responded
    return outer


def states_request(
    groups: GroupCoordinator, group_id: str, states: StatePartitions, topic_ids: Iterable[bytes]
) -> DeleteShareGroupStateRequest:
    """The deletion of the states of these topics: of all partitions of a topic whose deletion has failed before."""
    counts = {topic.topic_id: topic.partitions for topic in groups.topics_view.image().topics.values()}
    topics = []
    for topic_id in topic_ids:
        numbers: set[int] = set()
        for known in (states.initialized, states.initializing):
            numbers |= known[topic_id].partitions if topic_id in known else set()
        if topic_id in states.deleting:
            numbers |= set(range(counts.get(topic_id, 0)))
        if numbers:
            topics.append(DeletedStateTopic(topic_id, [DeletedStatePartition(number) for number in sorted(numbers)]))
    return DeleteShareGroupStateRequest(group_id, topics)


def delete_share_group(broker: ShareServices, group: ShareGroup) -> Pending:
    """DeleteGroups for a share group: the group notes that its states go, the share coordinator deletes them, and the group
    goes. The response is that of DeleteGroups for it alone."""
    groups, group_id, states = broker.groups, group.group_id, group.states or StatePartitions()
    request = states_request(groups, group_id, states, dict.fromkeys((*states.known_topics(), *states.deleting)))
    noted = DeleteGroupsResponse(results=[DeletableGroupResult(group_id, 0)])

    def then(response: Any, outer: Pending) -> None:
        def responded(result: Any) -> None:
            codes = [row.error_code for topic in result.results for row in topic.partitions if row.error_code]
            if codes:
                outer.respond(DeleteGroupsResponse(results=[DeletableGroupResult(group_id, error_of(codes[0]))]))
            else:
                groups.submit(DeleteGroup(group_id), outer, 0, "", "")

        if response.results[0].error_code:
            outer.respond(response)
        elif request.topics:
            broker.share_persister.send(request, responded)
        else:
            groups.submit(DeleteGroup(group_id), outer, 0, "", "")

    return after(_submitted(groups, StatesDeleting(group_id, noted)), then)


def _submitted(groups: GroupCoordinator, command: Command) -> Pending:
    pending = Pending()
    groups.submit(command, pending, 0, "", "")
    return pending


HANDLERS: dict[int, Handler] = {
    83: handle_initialize_share_group_state,
    84: handle_read_share_group_state,
    85: handle_write_share_group_state,
    86: handle_delete_share_group_state,
    87: handle_read_share_group_state_summary,
}
