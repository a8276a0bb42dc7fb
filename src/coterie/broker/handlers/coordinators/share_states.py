"""The requests to the share coordinator (KIP-932): states are initialized, read, written, deleted and summarized. Each
partition has its own result; without a group, a topic or a partition there are none."""

from __future__ import annotations

from coterie.broker.handlers.services import Handler, ShareServices
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.wire.declaration import Message


def handle_share_state(broker: ShareServices, request: Message, call: Call) -> Message | Pending:
    """Each of the five requests, in turns of the loop: a step for each partition."""

    def work() -> Work:
        pending = Pending()
        yield from broker.share_coordinator.submitting(request, pending.respond)
        return pending

    return broker.turns.run(work())


# InitializeShareGroupState, ReadShareGroupState, WriteShareGroupState, DeleteShareGroupState, ReadShareGroupStateSummary
HANDLERS: dict[int, Handler] = dict.fromkeys((83, 84, 85, 86, 87), handle_share_state)
