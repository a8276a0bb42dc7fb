"""The requests to the share coordinator (KIP-932): states are initialized, read, written, deleted and summarized. Each
partition has its own result; without a group, a topic or a partition there are none."""

from __future__ import annotations

from coterie.broker.handlers.services import Handler, ShareServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.wire.declaration import Message
from coterie.wire.messages.share.delete_share_group_state import DeleteShareGroupStateRequest
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


HANDLERS: dict[int, Handler] = {
    83: handle_initialize_share_group_state,
    84: handle_read_share_group_state,
    85: handle_write_share_group_state,
    86: handle_delete_share_group_state,
    87: handle_read_share_group_state_summary,
}
