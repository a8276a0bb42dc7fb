"""The table of what each API checks, in Kafka's order (KafkaApis and ControllerApis of 4.3), and the handlers behind it.

A broker without an authorizer uses its handlers as they are: the checks cost it nothing. Each API that the broker serves has a
row here; `UNCHECKED` are the ones that Kafka leaves to everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access import administration, groups, logs, share_groups, topics
from coterie.broker.handlers.access.access import CheckedRequest, Result, access_of
from coterie.broker.handlers.access.refusals import refused
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call
from coterie.wire.errors import ErrorCode

Check = Callable[[CheckedRequest], Result]
_O = AclOperation


def _cluster(*operations: AclOperation) -> Check:
    """The request as a whole: any of these operations on the cluster."""

    def check(checked: CheckedRequest) -> Result:
        *others, last = operations
        if any(checked.access.allows_cluster(operation, is_reported=False) for operation in others):
            return checked.proceed()
        if checked.access.allows_cluster(last):
            return checked.proceed()
        return refused(checked.request, checked.call.api_version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    return check


def _group(operation: AclOperation) -> Check:
    """The request as a whole: the operation on its group."""

    def check(checked: CheckedRequest) -> Result:
        request = checked.request
        if checked.access.allows_group(operation, request.group_id):
            return checked.proceed()
        return refused(request, checked.call.api_version, ErrorCode.GROUP_AUTHORIZATION_FAILED)

    return check


def _share_group(checked: CheckedRequest) -> Result:
    """READ of the group, unless the request names none: the handler refuses that one."""
    return checked.proceed() if checked.request.group_id is None else _group(_O.READ)(checked)


def _transaction(checked: CheckedRequest) -> Result:
    """WRITE of the transactional id."""
    request = checked.request
    if checked.access.allows_transactional_id(_O.WRITE, request.transactional_id):
        return checked.proceed()
    return refused(request, checked.call.api_version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _transaction_and_group(checked: CheckedRequest) -> Result:
    request = checked.request
    if not checked.access.allows_transactional_id(_O.WRITE, request.transactional_id):
        return refused(request, checked.call.api_version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return _group(_O.READ)(checked)


CHECKS: Mapping[int, Check] = {
    0: logs.produce,
    1: logs.fetch,
    2: logs.list_offsets,
    3: topics.metadata,
    4: _cluster(_O.CLUSTER_ACTION),
    5: _cluster(_O.CLUSTER_ACTION),
    6: _cluster(_O.CLUSTER_ACTION),
    7: _cluster(_O.CLUSTER_ACTION),
    8: groups.offset_commit,
    9: groups.offset_fetch,
    10: administration.find_coordinator,
    11: _group(_O.READ),
    12: _group(_O.READ),
    13: _group(_O.READ),
    14: _group(_O.READ),
    15: groups.describe_groups_check,
    16: groups.list_groups,
    19: topics.create_topics,
    20: topics.delete_topics,
    21: logs.delete_records,
    22: administration.init_producer_id,
    23: logs.offset_for_leader_epoch,
    24: administration.add_partitions_to_txn,
    25: _transaction_and_group,
    26: _transaction,
    27: _cluster(_O.ALTER, _O.CLUSTER_ACTION),
    28: groups.txn_offset_commit,
    29: _cluster(_O.DESCRIBE),
    30: _cluster(_O.ALTER),
    31: _cluster(_O.ALTER),
    32: administration.describe_configs,
    33: administration.alter_configs,
    34: _cluster(_O.ALTER),
    35: _cluster(_O.DESCRIBE),
    37: topics.create_partitions,
    38: administration.create_delegation_token,
    41: administration.describe_delegation_token,
    42: groups.delete_groups,
    43: _cluster(_O.ALTER),
    44: administration.incremental_alter_configs,
    45: _cluster(_O.ALTER),
    46: _cluster(_O.DESCRIBE),
    47: groups.offset_delete,
    48: _cluster(_O.DESCRIBE_CONFIGS),
    49: _cluster(_O.ALTER_CONFIGS),
    50: _cluster(_O.DESCRIBE),
    51: _cluster(_O.ALTER),
    57: _cluster(_O.ALTER),
    60: topics.describe_cluster,
    61: administration.describe_producers,
    **dict.fromkeys((64, 94), _cluster(_O.ALTER)),
    65: administration.describe_transactions,
    66: administration.list_transactions,
    68: groups.consumer_group_heartbeat,
    69: groups.consumer_group_describe_check,
    74: _cluster(_O.DESCRIBE_CONFIGS),
    78: _share_group,
    79: _share_group,
    75: topics.describe_topic_partitions,
    76: share_groups.share_group_heartbeat,
    77: share_groups.share_group_describe,
    **dict.fromkeys((83, 84, 85, 86, 87), _cluster(_O.CLUSTER_ACTION)),
    88: groups.streams_group_heartbeat,
    89: groups.streams_group_describe_check,
    93: groups.topology_description_update,
    90: share_groups.describe_share_group_offsets,
    91: share_groups.alter_share_group_offsets,
    92: share_groups.delete_share_group_offsets,
    30000: _group(_O.DESCRIBE),  # ExplainGroup, as DescribeGroups
    30001: _cluster(_O.DESCRIBE),  # ListClients
}

# SaslHandshake, ApiVersions, SaslAuthenticate, and client metrics; a token is renewed and expired by its owner and renewers.
UNCHECKED = frozenset({17, 18, 36, 39, 40, 71, 72})


def authorized(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """The handlers of a broker with an authorizer. An API in neither table has none: it is not served."""
    behind = {key: _behind(handlers, key, check) for key, check in CHECKS.items() if key in handlers}
    return behind | {key: partial(_as_it_is, handlers, key) for key in UNCHECKED if key in handlers}


def _behind(handlers: Mapping[int, Handler], key: int, check: Check) -> Handler:
    """``handlers`` is called at each request: it gets a handler at its first."""

    def handle(broker: Services, request: Any, call: Call) -> Result:
        access = access_of(broker, call)
        assert access is not None, "a broker without an authorizer uses its handlers as they are"
        return check(CheckedRequest(access, broker, request, call, handlers[key]))

    return handle


def _as_it_is(handlers: Mapping[int, Handler], key: int, broker: Services, request: Any, call: Call) -> Result:
    return handlers[key](broker, request, call)
