"""Every API that the broker serves has a row in the table of checks, and each of its checks refuses and permits: with no rule,
with one that allows or denies, for a prefix, for all names, for another host, about resources that exist and others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from coterie.authorizer.acls import CLUSTER_NAME, AclOperation, AclResourceType, PatternType, Permission
from coterie.broker.handlers.access.checks import CHECKS, REQUEST_RULES, UNCHECKED
from coterie.broker.requests.calls import CannotRespond
from coterie.wire.apis import API_NAMES, APIS, CLUSTER_APIS
from coterie.wire.messages.groups.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.share.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from coterie.wire.topic_names import LAST_WITHOUT_IDS
from tests.broker.access.restricted_broker import (
    CLUSTER,
    GROUP,
    HOST,
    TOPIC,
    TRANSACTIONAL_ID,
    RestrictedBroker,
    errors_of,
    is_denied,
)
from tests.broker.connections.array_requests import BATCH, make_request

_O = AclOperation
Need = tuple[AclOperation, AclResourceType]
_READ_GROUP, _WRITE_ID = (_O.READ, GROUP), (_O.WRITE, TRANSACTIONAL_ID)
_OF_CLUSTER = {
    _O.CLUSTER_ACTION: (4, 5, 6, 7, 83, 84, 85, 86, 87),
    _O.ALTER: (27, 30, 31, 34, 43, 45, 51, 57, 64, 94),
    _O.DESCRIBE: (29, 35, 46, 50, 30001),
    _O.DESCRIBE_CONFIGS: (48, 74),
    _O.ALTER_CONFIGS: (49,),
}
# What each API needs. Filters, which refuse nothing, have tests of their own.
NEEDS: dict[int, tuple[Need, ...]] = {
    **{key: ((operation, CLUSTER),) for operation, keys in _OF_CLUSTER.items() for key in keys},
    0: ((_O.WRITE, TOPIC),),
    1: ((_O.READ, TOPIC),),
    2: ((_O.DESCRIBE, TOPIC),),
    3: ((_O.DESCRIBE, TOPIC),),
    8: (_READ_GROUP, (_O.READ, TOPIC)),
    9: ((_O.DESCRIBE, GROUP), (_O.DESCRIBE, TOPIC)),
    10: ((_O.DESCRIBE, GROUP),),
    **dict.fromkeys((11, 12, 13, 14), (_READ_GROUP,)),
    15: ((_O.DESCRIBE, GROUP),),
    19: ((_O.CREATE, TOPIC), (_O.DESCRIBE_CONFIGS, TOPIC)),
    20: ((_O.DELETE, TOPIC),),
    21: ((_O.DELETE, TOPIC),),
    22: (_WRITE_ID,),
    23: ((_O.DESCRIBE, TOPIC),),
    24: (_WRITE_ID, (_O.WRITE, TOPIC)),
    25: (_WRITE_ID, _READ_GROUP),
    26: (_WRITE_ID,),
    28: (_WRITE_ID, _READ_GROUP, (_O.READ, TOPIC)),
    32: ((_O.DESCRIBE_CONFIGS, TOPIC),),
    33: ((_O.ALTER_CONFIGS, TOPIC),),
    37: ((_O.ALTER, TOPIC),),
    42: ((_O.DELETE, GROUP),),
    44: ((_O.ALTER_CONFIGS, TOPIC),),
    47: ((_O.DELETE, GROUP), (_O.READ, TOPIC)),
    61: ((_O.READ, TOPIC),),
    65: ((_O.DESCRIBE, TRANSACTIONAL_ID),),
    68: (_READ_GROUP, (_O.DESCRIBE, TOPIC)),
    69: ((_O.DESCRIBE, GROUP),),
    75: ((_O.DESCRIBE, TOPIC),),
    **dict.fromkeys((78, 79), (_READ_GROUP,)),  # and READ of each topic: tests/broker/share/test_share_requests.py
    76: (_READ_GROUP, (_O.DESCRIBE, TOPIC)),
    77: ((_O.DESCRIBE, GROUP),),
    90: ((_O.DESCRIBE, GROUP), (_O.DESCRIBE, TOPIC)),
    91: (_READ_GROUP, (_O.READ, TOPIC)),
    92: ((_O.DELETE, GROUP), (_O.READ, TOPIC)),
    88: (_READ_GROUP, (_O.DESCRIBE, TOPIC)),
    89: ((_O.DESCRIBE, GROUP),),
    93: (_READ_GROUP,),
    30000: ((_O.DESCRIBE, GROUP),),
}
FILTERS = {16, 60, 66}  # ListGroups, DescribeCluster, ListTransactions show what is allowed
TOKENS = {38, 41}  # on a connection with a login: `test_delegation_tokens`
_NAMES = {GROUP: "g", CLUSTER: CLUSTER_NAME, TRANSACTIONAL_ID: "x"}
_VALUES = {
    "group_id": "g",
    "groups": "g",
    "group_ids": "g",
    "groups_names": "g",
    "key": "g",
    "coordinator_keys": "g",
    "transactional_id": "x",
    "transactional_ids": "x",
    "records": BATCH,
    "acks": 1,
    "resource_type": 2,
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "resource_pattern_type": 3,
    "operation": 3,
    "permission_type": 3,
    "replica_id": -1,
    "max_wait_ms": 0,
    "member_id": "m",
    "cursor": None,
    "configs": [],
    "assignments": [],
    "count": 3,
    "num_partitions": 1,
    "replication_factor": 1,
    "include_authorized_operations": False,
    "allow_auto_topic_creation": False,
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": [],
    "rebalance_timeout_ms": 60_000,
    "cluster_id": None,
}


_TOPIC_LISTS = ("subscribed_topic_names", "source_topics", "repartition_sink_topics")


def test_no_api_is_forgotten() -> None:
    served = APIS.keys() | CLUSTER_APIS.keys()
    assert REQUEST_RULES.keys() | CHECKS.keys() | UNCHECKED == served
    assert len(REQUEST_RULES) + len(CHECKS) + len(UNCHECKED) == len(served)
    assert NEEDS.keys() | FILTERS | TOKENS == REQUEST_RULES.keys() | CHECKS.keys()


@dataclass(frozen=True, slots=True)
class Case:
    """One API, and the need of it that the rule is about; it has all its other needs."""

    key: int
    need: Need
    topic: str

    def __str__(self) -> str:
        operation, kind = self.need
        return f"{API_NAMES[self.key]}-{operation.name}-{kind.name}-{self.topic}"

    @property
    def name(self) -> str:
        """Of the resource."""
        return _NAMES.get(self.need[1], self.topic)

    def request(self) -> tuple[Any, int]:
        """A request that names the resources, and its version: the newest that names topics."""
        api = APIS.get(self.key) or CLUSTER_APIS[self.key]
        last = LAST_WITHOUT_IDS.get(self.key) or api.advertised.last
        version = min(3, last) if self.key == 24 else last  # AddPartitionsToTxn of a client
        topics = dict.fromkeys(("name", "topic", "topics", "topic_names", "resource_name", "topic_name"), self.topic)
        values = _VALUES | topics | dict.fromkeys(_TOPIC_LISTS, self.topic)
        if self.key in (29, 30, 31):
            values |= {"resource_name": "r"}
        return make_request(api.request, version, values), version


def _cases() -> Iterator[Case]:
    for key, needs in NEEDS.items():
        for need in needs:
            for topic in ("t", "absent") if need[1] is TOPIC else ("t",):
                if (key, need) != (19, (_O.DESCRIBE_CONFIGS, TOPIC)):
                    yield Case(key, need, topic)


CASES = list(_cases())


def broker_for(case: Case) -> RestrictedBroker:
    """With all other needs of the API, and the group."""
    broker = RestrictedBroker()
    if case.key in (91, 92):  # of a share group
        partitions = [AlterShareGroupOffsetsRequestPartition(0, 0)]
        altered = [AlterShareGroupOffsetsRequestTopic("t", partitions)]
        broker.ask("admin", AlterShareGroupOffsetsRequest("g", altered), 0)
    else:
        commit = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
        broker.ask("admin", OffsetCommitRequest("g", topics=[commit]), 2)
    for operation, kind in NEEDS[case.key]:
        if (operation, kind) != case.need:
            broker.allow("alice", operation, kind, _NAMES.get(kind, case.topic))
    return broker


RULES: dict[str, tuple[dict[str, Any] | None, bool]] = {
    "no rule": (None, False),
    "allow": ({"permission": Permission.ALLOW}, True),
    "deny": ({"permission": Permission.DENY}, False),
    "all operations": ({"permission": Permission.ALLOW, "operation": _O.ALL}, True),
    "prefixed": ({"permission": Permission.ALLOW, "pattern": PatternType.PREFIXED}, True),
    "wildcard": ({"permission": Permission.ALLOW, "name": "*"}, True),
    "host": ({"permission": Permission.ALLOW, "host": HOST}, True),
    "network": ({"permission": Permission.ALLOW, "host": "10.0.0.0/8"}, True),
    "another host": ({"permission": Permission.ALLOW, "host": "10.0.0.8"}, False),
    "another user": ({"permission": Permission.ALLOW, "principal": "bob"}, False),
    "everybody": ({"permission": Permission.ALLOW, "principal": "*"}, True),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_check_refuses_and_permits(case: Case) -> None:
    for name, (rule, is_allowed) in RULES.items():
        if rule is not None and case.need[1] is CLUSTER and ("pattern" in rule or "name" in rule):
            continue  # the cluster has one name
        broker = broker_for(case)
        if rule is not None:
            parts = dict(rule)
            what = parts.pop("operation", case.need[0]), case.need[1], parts.pop("name", case.name)
            permission = parts.pop("permission")
            broker.add(permission, parts.pop("principal", "alice"), what, **parts)
        request, version = case.request()
        try:
            response = broker.ask("alice", request, version)
        except CannotRespond:
            assert is_allowed, f"{case}: {name}"  # a request between brokers, to a broker alone
        else:
            assert is_denied(response) != is_allowed, f"{case}: {name}: {errors_of(response)}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_super_users_and_without_acl_everybody(case: Case) -> None:
    """testAuthorizationWithTopicExisting, testAuthorizationWithTopicNotExisting, testAuthorizationFetchV12WithTopicNotExisting,
    testHostAddressBasedAcls, testDescribeTopicAclWithOperationAll, testDescribeTopicConfigsAclWithOperationAll,
    testConsumerGroupHeartbeatWithReadAcl, testConsumerGroupHeartbeatWithOperationAll, testConsumerGroupHeartbeatWithoutReadAcl,
    testConsumerGroupDescribeWithDescribeAcl, testConsumerGroupDescribeWithOperationAll."""
    for broker, user in (
        (RestrictedBroker(), "root"),
        (RestrictedBroker(allow_everyone_if_no_acl_found="true"), "alice"),
    ):
        request, version = case.request()
        try:
            assert not is_denied(broker.ask(user, request, version))
        except CannotRespond:
            continue
