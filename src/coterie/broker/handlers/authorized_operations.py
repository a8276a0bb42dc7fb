"""What a client may do (KIP-430), as Kafka responds without an authorizer: every operation that the kind of resource has.

A response holds a bit field, bit n for the operation of code n (org.apache.kafka.common.acl.AclOperation); it stays at
the smallest int32 where the request did not ask for it.
"""

from __future__ import annotations

from coterie.authorizer.acls import AclOperation, AclResourceType

_O = AclOperation
NOT_REQUESTED = -(2**31)
OPERATIONS: dict[AclResourceType, tuple[AclOperation, ...]] = {
    AclResourceType.CLUSTER: (
        _O.CREATE,
        _O.ALTER,
        _O.DESCRIBE,
        _O.CLUSTER_ACTION,
        _O.DESCRIBE_CONFIGS,
        _O.ALTER_CONFIGS,
        _O.IDEMPOTENT_WRITE,
    ),
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
}


def _bits(resource_type: AclResourceType) -> int:
    return sum(1 << operation for operation in OPERATIONS[resource_type])


CLUSTER_OPERATIONS = _bits(AclResourceType.CLUSTER)
TOPIC_OPERATIONS = _bits(AclResourceType.TOPIC)
GROUP_OPERATIONS = _bits(AclResourceType.GROUP)
