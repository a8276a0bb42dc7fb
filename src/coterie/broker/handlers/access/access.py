"""What one client may do (Kafka's AuthHelper): the authorizer's rulings for the principal and address of a connection. Without
an authorizer a client may do everything, but for requests between brokers, which in a cluster only brokers may send
(`cluster/registered_senders`).

A response holds what a client may do (KIP-430) as a bit field, bit n for the operation of code n
(org.apache.kafka.common.acl.AclOperation); it stays at the smallest int32 where the request does not name it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar

from coterie.authorizer.acls import CLUSTER_NAME, OPERATIONS_OF, AclOperation, AclResourceType
from coterie.broker.clients.acls import Acls, Denial
from coterie.broker.clients.clients import Clients
from coterie.broker.handlers.services import ControlServices, Handler, Services
from coterie.broker.process.scheduling import Clock
from coterie.broker.requests.calls import Call, CannotRespond, ClientConnection
from coterie.broker.requests.pending import NO_RESPONSE, Pending
from coterie.wire.declaration import Message

Result = Message | Pending | None
T = TypeVar("T")
NOT_REQUESTED = -(2**31)
_Handle = Callable[[Any, Any, Call], Message | Pending]


class Access:
    """Of the client of a connection, as long as it has this principal. Denials are reported in the log, unless a check only
    looks for what to show."""

    __slots__ = ("_clock", "_host", "_name", "acls", "principal")

    def __init__(self, acls: Acls, connection: ClientConnection, clock: Clock) -> None:
        self.acls, self._clock = acls, clock
        self.principal, self._name = connection.principal, connection.principal.text
        self._host = connection.host.lstrip("/")

    def allows(
        self, operation: AclOperation, resource_type: AclResourceType, name: str, *, is_reported: bool = True
    ) -> bool:
        """``is_reported``: whether a denial has a line in the log."""
        ruling = self.acls.authorizer.decide(self._name, self._host, operation, resource_type, name)
        if not ruling.is_allowed and is_reported:
            denial = Denial(self._name, self._host, operation, resource_type, name)
            self.acls.report(denial, ruling, self._clock.now_ms())
        return ruling.is_allowed

    def allows_cluster(self, operation: AclOperation, *, is_reported: bool = True) -> bool:
        return self.allows(operation, AclResourceType.CLUSTER, CLUSTER_NAME, is_reported=is_reported)

    def allows_topic(self, operation: AclOperation, topic: str, *, is_reported: bool = True) -> bool:
        return self.allows(operation, AclResourceType.TOPIC, topic, is_reported=is_reported)

    def allows_group(self, operation: AclOperation, group_id: str, *, is_reported: bool = True) -> bool:
        return self.allows(operation, AclResourceType.GROUP, group_id, is_reported=is_reported)

    def allows_transactional_id(self, operation: AclOperation, name: str, *, is_reported: bool = True) -> bool:
        return self.allows(operation, AclResourceType.TRANSACTIONAL_ID, name, is_reported=is_reported)

    def allows_for_any(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """As `Authorizer.allows_for_any`."""
        return self.acls.authorizer.allows_for_any(self._name, self._host, operation, resource_type)

    def operations(self, resource_type: AclResourceType, name: str) -> int:
        """The bit field of the operations that are allowed (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource_type]
            if self.allows(operation, resource_type, name, is_reported=False)
        )


class _Checking(Protocol):
    """What the checks use of the broker."""

    clients: Clients
    clock: Clock


def access_of(broker: _Checking, call: Call) -> Access | None:
    """What the client of a call may do; None without an authorizer. Kept with its connection."""
    acls, connection = broker.clients.acls, call.connection
    if acls is None:
        return None
    access: Access | None = connection.access
    if access is None or access.principal is not connection.principal or access.acls is not acls:
        access = connection.access = Access(acls, connection, broker.clock)
    return access


def divided(items: Iterable[T], is_allowed: Callable[[T], bool]) -> tuple[list[T], list[T]]:
    """The items that are allowed, and the others, each in their order."""
    allowed, denied = list[T](), list[T]()
    for item in items:
        (allowed if is_allowed(item) else denied).append(item)
    return allowed, denied


@dataclass(slots=True)
class CheckedRequest:
    """A request on its way to its handler, which a check may shorten: the request is this client's alone."""

    access: Access
    broker: Services
    request: Any
    call: Call
    handler: Handler

    def proceed(self) -> Result:
        """The handler's result."""
        return self.handler(self.broker, self.request, self.call)

    def then(self, change: Callable[[Any], None]) -> Result:
        """The handler's result, after ``change`` has had the response."""

        def changed(response: Message) -> Message:
            if response is not NO_RESPONSE:
                change(response)
            return response

        result = self.proceed()
        if isinstance(result, Pending):
            return result.then(changed)
        return None if result is None else changed(result)


def _operation_bits(resource_type: AclResourceType) -> int:
    return sum(1 << operation for operation in OPERATIONS_OF[resource_type])


CLUSTER_OPERATIONS = _operation_bits(AclResourceType.CLUSTER)

TOPIC_OPERATIONS = _operation_bits(AclResourceType.TOPIC)

GROUP_OPERATIONS = _operation_bits(AclResourceType.GROUP)


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
