"""Access control lists as values: resources, operations, the entries themselves, and filters of entries.

Codes and matching are those of Kafka's org.apache.kafka.common.acl and org.apache.kafka.common.resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from coterie.wire.errors import ErrorCode, Refusal

WILDCARD = "*"  # every name of a literal pattern, every host
EVERY_USER = "User:*"
CLUSTER_NAME = "kafka-cluster"  # the one resource of the type CLUSTER


class AclResourceType(IntEnum):
    """The kinds of resources; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an entry's resource is meant; ANY and MATCH (every pattern that covers a name) are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What an entry may allow or deny; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


_O = AclOperation
# What can be requested of each kind of resource (Kafka's AclEntry.supportedOperations).
OPERATIONS_OF: dict[AclResourceType, tuple[AclOperation, ...]] = {
    AclResourceType.TOPIC: (
        _O.READ,
        _O.WRITE,
        _O.CREATE,
        _O.DELETE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
    ),
    # Up to Kafka 3.9 a group had no settings, and its bits were 328.
    AclResourceType.GROUP: (_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    AclResourceType.CLUSTER: (
        _O.CREATE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE, _O.TWO_PHASE_COMMIT),
    AclResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    AclResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}


class Permission(IntEnum):
    """Whether an entry allows or denies; ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One entry. ``host``: an address, a network in CIDR notation (KIP-1276), or `WILDCARD`."""

    resource_type: AclResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    @property
    def text(self) -> str:
        """The entry in one line, for logs and reports."""
        kind = self.resource_type.name.lower()
        prefixed = " (prefixed)" if self.pattern_type is PatternType.PREFIXED else ""
        return (
            f"{self.permission.name} {self.principal} {self.operation.name} on {kind} {self.name}{prefixed} "
            f"from host {self.host}"
        )


def check(acl: Acl) -> None:
    """Raises Refusal INVALID_REQUEST for an entry that cannot be kept (Kafka's AclApis and AclControlManager)."""
    if acl.resource_type is AclResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise _invalid("Invalid empty resource name")
    if acl.resource_type <= AclResourceType.ANY:
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation <= AclOperation.ANY:
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission <= Permission.ANY:
        raise _invalid(f"Invalid permissionType {acl.permission.name}")


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which entries are described or deleted; ANY and None stand for every value."""

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY

    @property
    def is_unknown(self) -> bool:
        """Whether a part has a code that does not exist."""
        return 0 in (self.resource_type, self.pattern_type, self.operation, self.permission)

    def matches(self, acl: Acl) -> bool:
        """Whether the filter describes an entry."""
        return (
            self.resource_type in (AclResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        return self.name.startswith(acl.name) if acl.pattern_type is PatternType.PREFIXED else acl.name == WILDCARD
