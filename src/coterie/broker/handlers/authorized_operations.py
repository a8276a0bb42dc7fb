"""What a client may do (KIP-430), as Kafka responds without an authorizer: every operation that the kind of resource has.

A response holds a bit field, bit n for the operation of code n (org.apache.kafka.common.acl.AclOperation); it stays at
the smallest int32 where the request does not name it.
"""

from __future__ import annotations

from coterie.authorizer.acls import OPERATIONS_OF, AclResourceType

NOT_REQUESTED = -(2**31)


def _bits(resource_type: AclResourceType) -> int:
    return sum(1 << operation for operation in OPERATIONS_OF[resource_type])


CLUSTER_OPERATIONS = _bits(AclResourceType.CLUSTER)
TOPIC_OPERATIONS = _bits(AclResourceType.TOPIC)
GROUP_OPERATIONS = _bits(AclResourceType.GROUP)
