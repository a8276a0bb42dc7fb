"""Requests between brokers that only brokers may send, in a cluster without an authorizer (`cluster/registered_senders`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from coterie.broker.handlers.services import ControlServices
from coterie.broker.requests.calls import Call, CannotRespond
from coterie.broker.requests.pending import Pending
from coterie.wire.declaration import Message

_Handle = Callable[[Any, Any, Call], Message | Pending]


def from_brokers(handle: _Handle) -> _Handle:
    """The handler behind the check. A stranger's connection is closed, as for an API that is not served."""

    @wraps(handle)
    def checked(broker: ControlServices, request: Any, call: Call) -> Message | Pending:
        senders, address = None if broker.member is None else broker.member.senders, call.connection.host.lstrip("/")
        if senders is None or senders.knows(address):
            return handle(broker, request, call)
        pending = Pending()

        def decided(is_admitted: bool) -> None:
            if is_admitted:
                pending.respond_with(handle(broker, request, call))
            else:
                pending.fail(CannotRespond(f"{type(request).__name__} from an address that is no broker's"))

        senders.decide(address, decided)
        return pending

    return checked
