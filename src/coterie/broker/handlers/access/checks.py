"""The table of what each API checks, in Kafka's order (KafkaApis and ControllerApis of 4.3), and the handlers behind it.

A broker without an authorizer uses its handlers as they are: the checks cost it nothing. Each API that the broker serves has a
row here: in `REQUEST_RULES` where it is checked as a whole; `UNCHECKED` are the ones that Kafka leaves to everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from coterie.authorizer.acls import AclOperation
from coterie.broker.handlers.access import administration, groups, logs, share_groups, topics
from coterie.broker.handlers.access.access import Access, CheckedRequest, Result, access_of
from coterie.broker.handlers.access.refusals import refused
from coterie.broker.handlers.services import Handler, Services
from coterie.broker.requests.calls import Call
from coterie.wire.errors import ErrorCode

Check = Callable[[CheckedRequest], Result]
Rule = Callable[[Access, Any], ErrorCode]  # of a request as a whole: the error that refuses it, or NONE
_O = AclOperation


def _cluster(*operations: AclOperation) -> Rule:
    """Any of these operations on the cluster."""

    def rule(access: Access, request: Any) -> ErrorCode:
        *others, last = operations
        is_allowed = any(access.allows_cluster(operation, is_reported=False) for operation in others)
        is_allowed = is_allowed or access.allows_cluster(last)
        return ErrorCode.NONE if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    return rule


def _group(operation: AclOperation) -> Rule:
    """The operation on the request's group."""

    def rule(access: Access, request: Any) -> ErrorCode:
        is_allowed = access.allows_group(operation, request.group_id)
        return ErrorCode.NONE if is_allowed else ErrorCode.GROUP_AUTHORIZATION_FAILED

    return rule


def _share_group(access: Access, request: Any) -> ErrorCode:
    """READ of the group, unless the request names none: the handler refuses that one."""
    return ErrorCode.NONE if request.group_id is None else _group(_O.READ)(access, request)


def _transaction(access: Access, request: Any) -> ErrorCode:
    """WRITE of the transactional id."""
    is_allowed = access.allows_transactional_id(_O.WRITE, request.transactional_id)
    return ErrorCode.NONE if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _transaction_and_group(access: Access, request: Any) -> ErrorCode:
    return _transaction(access, request) or _group(_O.READ)(access, request)


REQUEST_RULES: Mapping[int, Rule] = {
    4: _cluster(_O.CLUSTER_ACTION),
    5: _cluster(_O.CLUSTER_ACTION),
    6: _cluster(_O.CLUSTER_ACTION),
    7: _cluster(_O.CLUSTER_ACTION),
    11: _group(_O.READ),
    12: _group(_O.READ),
    13: _group(_O.READ),
    14: _group(_O.READ),
    25: _transaction_and_group,
    26: _transaction,
    27: _cluster(_O.ALTER, _O.CLUSTER_ACTION),
    29: _cluster(_O.DESCRIBE),
    30: _cluster(_O.ALTER),
    31: _cluster(_O.ALTER),
    34: _cluster(_O.ALTER),
    35: _cluster(_O.DESCRIBE),
    43: _cluster(_O.ALTER),
    45: _cluster(_O.ALTER),
    46: _cluster(_O.DESCRIBE),
    48: _cluster(_O.DESCRIBE_CONFIGS),
    49: _cluster(_O.ALTER_CONFIGS),
    50: _cluster(_O.DESCRIBE),
    51: _cluster(_O.ALTER),
    57: _cluster(_O.ALTER),
    **dict.fromkeys((64, 94), _cluster(_O.ALTER)),
    74: _cluster(_O.DESCRIBE_CONFIGS),
    78: _share_group,
    79: _share_group,
    **dict.fromkeys((83, 84, 85, 86, 87), _cluster(_O.CLUSTER_ACTION)),
    30000: _group(_O.DESCRIBE),  # ExplainGroup, as DescribeGroups
    30001: _cluster(_O.DESCRIBE),  # ListClients
}

# Of the parts of a request, of which a check may take some out.
CHECKS: Mapping[int, Check] = {
    0: logs.produce,
    1: logs.fetch,
    2: logs.list_offsets,
    3: topics.metadata,
    8: groups.offset_commit,
    9: groups.offset_fetch,
    10: administration.find_coordinator,
    15: groups.describe_groups_check,
    16: groups.list_groups,
    19: topics.create_topics,
    20: topics.delete_topics,
    21: logs.delete_records,
    22: administration.init_producer_id,
    23: logs.offset_for_leader_epoch,
    24: administration.add_partitions_to_txn,
    28: groups.txn_offset_commit,
    32: administration.describe_configs,
    33: administration.alter_configs,
    37: topics.create_partitions,
    38: administration.create_delegation_token,
    41: administration.describe_delegation_token,
    42: groups.delete_groups,
    44: administration.incremental_alter_configs,
    47: groups.offset_delete,
    60: topics.describe_cluster,
    61: administration.describe_producers,
    65: administration.describe_transactions,
    66: administration.list_transactions,
    68: groups.consumer_group_heartbeat,
    69: groups.consumer_group_describe_check,
    75: topics.describe_topic_partitions,
    76: share_groups.share_group_heartbeat,
    77: share_groups.share_group_describe,
    88: groups.streams_group_heartbeat,
    89: groups.streams_group_describe_check,
    93: groups.topology_description_update,
    90: share_groups.describe_share_group_offsets,
    91: share_groups.alter_share_group_offsets,
    92: share_groups.delete_share_group_offsets,
}

# SaslHandshake, ApiVersions, SaslAuthenticate, and client metrics; a token is renewed and expired by its owner and renewers.
UNCHECKED = frozenset({17, 18, 36, 39, 40, 71, 72})


def authorized(handlers: Mapping[int, Handler]) -> dict[int, Handler]:
    """The handlers of a broker with an authorizer. An API in none of the tables has none: it is not served."""
    behind = {key: _behind(handlers, key) for key in (*REQUEST_RULES, *CHECKS) if key in handlers}
    return behind | {key: partial(_as_it_is, handlers, key) for key in UNCHECKED if key in handlers}


def _behind(handlers: Mapping[int, Handler], key: int) -> Handler:
    """``handlers`` is called at each request: it gets a handler at its first."""
    rule = REQUEST_RULES.get(key)

    def handle(broker: Services, request: Any, call: Call) -> Result:
        access = access_of(broker, call)
        assert access is not None, "a broker without an authorizer uses its handlers as they are"
        if rule is None:
            return CHECKS[key](CheckedRequest(access, broker, request, call, handlers[key]))
        code = rule(access, request)
        return refused(request, call.api_version, code) if code else handlers[key](broker, request, call)

    return handle


def _as_it_is(handlers: Mapping[int, Handler], key: int, broker: Services, request: Any, call: Call) -> Result:
    return handlers[key](broker, request, call)
