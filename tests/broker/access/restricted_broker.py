"""A broker with an authorizer, asked by clients of any principal and address: requests go to its handlers directly."""

from __future__ import annotations

from typing import Any

from coterie.authentication.principal import USER, Principal
from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.broker.clients.acls import Acls
from coterie.broker.handlers import HANDLERS
from coterie.broker.handlers.access.checks import authorized
from coterie.broker.requests.calls import Call, ClientConnection
from coterie.broker.requests.pending import Pending
from coterie.laboratory.world import World
from coterie.log.filesystem import MemoryFileSystem
from coterie.wire.declaration import Message, Struct
from coterie.wire.errors import ErrorCode
from tests.broker.frames_broker import FramesBroker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZATION_ERRORS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
HOST = "10.0.0.7"
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = (
    AclResourceType.TOPIC,
    AclResourceType.GROUP,
    AclResourceType.CLUSTER,
    AclResourceType.TRANSACTIONAL_ID,
)


class RestrictedBroker(FramesBroker):
    """Topics t and u exist. `User:admin` may do everything."""

    def __init__(self, memory: MemoryFileSystem | None = None, **given: str) -> None:
        self.world = World(1)
        own = {"authorizer_class_name": AUTHORIZER, "super_users": "User:admin; User:root"} | given
        super().__init__(self.world, memory, **own)
        self.handlers = authorized(HANDLERS)

    @property
    def acls(self) -> Acls:
        assert self.clients.acls is not None
        return self.clients.acls

    def allow(self, principal: str, operation: AclOperation, kind: AclResourceType, name: str, **parts: Any) -> Acl:
        return self.add(Permission.ALLOW, principal, (operation, kind, name), **parts)

    def deny(self, principal: str, operation: AclOperation, kind: AclResourceType, name: str, **parts: Any) -> Acl:
        return self.add(Permission.DENY, principal, (operation, kind, name), **parts)

    def add(
        self,
        permission: Permission,
        principal: str,
        what: tuple[AclOperation, AclResourceType, str],
        *,
        pattern: PatternType = PatternType.LITERAL,
        host: str = "*",
    ) -> Acl:
        operation, kind, name = what
        acl = Acl(kind, name, pattern, f"User:{principal}", host, operation, permission)
        self.acls.alter([acl])
        return acl

    def ask(self, user: str, request: Message, version: int, host: str = HOST) -> Any:
        """The response, once there is one. Raises CannotRespond."""
        connection = ClientConnection(f"/{host}", local_address=("127.0.0.1", 9092))
        connection.principal = Principal(USER, user)
        result = self.handlers[request.api_key](self, request, Call(version, "client", connection))
        if isinstance(result, Pending) and result.response is None:
            self.world.run_until(self.world.now_ms + 10_000)
        response = result.response if isinstance(result, Pending) else result
        assert response is not None
        return response


def errors_of(value: object) -> set[int]:
    """Every error code in a response."""
    if isinstance(value, list):
        return {code for item in value for code in errors_of(item)}
    if not isinstance(value, Struct):
        return set()
    codes = set()
    for spec in type(value).fields:
        part = getattr(value, spec.name)
        codes |= {part} if spec.name.endswith("error_code") else errors_of(part)
    return codes


def is_denied(response: object) -> bool:
    """Whether a response has an error of authorization."""
    return bool(errors_of(response) & AUTHORIZATION_ERRORS)
