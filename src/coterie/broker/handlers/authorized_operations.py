"""What a client may do (KIP-430), as Kafka answers without an authorizer: every operation that the kind of resource has.

A response holds a bit field, bit n for the operation of code n (org.apache.kafka.common.acl.AclOperation); it stays at
the smallest int32 where the request did not ask for it.
"""

from __future__ import annotations

from coterie.authorizer.acls import AclOperation


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_O = AclOperation
CLUSTER_OPERATIONS = _bits(
    _O.CREATE, _O.ALTER, _O.DESCRIBE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE
)
TOPIC_OPERATIONS = _bits(
    _O.READ, _O.WRITE, _O.CREATE, _O.DELETE, _O.ALTER, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS
)
# Up to Kafka 3.9 a group had no settings, and its bits were 328.
GROUP_OPERATIONS = _bits(_O.READ, _O.DELETE, _O.DESCRIBE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS)
