"""Requests between the brokers of a cluster. A broker alone closes the connection, as for any API that is not served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.broker.handlers.access.access import from_brokers
from coterie.broker.handlers.services import ControlServices, Handler
from coterie.broker.requests.calls import Call, CannotRespond
from coterie.broker.requests.pending import Pending
from coterie.wire.declaration import Message
from coterie.wire.messages.brokers.controlled_shutdown import ControlledShutdownRequest
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrRequest
from coterie.wire.messages.brokers.stop_replica import StopReplicaRequest
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from coterie.broker.cluster.control_requests import ControlRequests


def _control(broker: ControlServices, api_key: int, call: Call) -> ControlRequests:
    """Raises CannotRespond."""
    if broker.member is None:
        raise CannotRespond(broker.unserved.add(call, api_key))
    return broker.member.control


def handle_leader_and_isr(broker: ControlServices, request: LeaderAndIsrRequest, call: Call) -> Message | Pending:
    return _control(broker, request.api_key, call).leader_and_isr(request)


def handle_stop_replica(broker: ControlServices, request: StopReplicaRequest, call: Call) -> Message | Pending:
    return _control(broker, request.api_key, call).stop_replica(request)


def handle_update_metadata(broker: ControlServices, request: UpdateMetadataRequest, call: Call) -> Message | Pending:
    return _control(broker, request.api_key, call).update_metadata(request)


def handle_controlled_shutdown(
    broker: ControlServices, request: ControlledShutdownRequest, call: Call
) -> Message | Pending:
    return _control(broker, request.api_key, call).controlled_shutdown(request)


HANDLERS: dict[int, Handler] = {
    4: from_brokers(handle_leader_and_isr),
    5: from_brokers(handle_stop_replica),
    6: from_brokers(handle_update_metadata),
    7: from_brokers(handle_controlled_shutdown),
}
