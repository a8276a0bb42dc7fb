"""The ACLs of a cluster: what one broker is asked to create is in force on every broker, and is in ZooKeeper as Kafka's
AclAuthorizer of 2.6 has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from coterie.client.connection.connection import Connection
from coterie.testing import ErrorCode
from coterie.testing.simulated import WorldBroker, simulate
from coterie.wire.messages.security.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from coterie.wire.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from coterie.wire.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from coterie.zookeeper.operations import Create, List, Read, Write, Znode
from tests.broker.world_scheduler import REQUEST_S, connections

SETTINGS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
ANY, TOPIC, LITERAL, PREFIXED, READ, ALLOW = 1, 2, 3, 4, 3, 3
ALL = DescribeAclsRequest(ANY, None, ANY, operation=ANY, permission_type=ANY)


@pytest.fixture
def broker() -> Iterator[WorldBroker]:
    with simulate(seed=1) as world:
        yield world.broker(SETTINGS, brokers=2)


def kept(broker: WorldBroker, path: str) -> list[dict[str, str]] | None:
    node = broker.cluster.zookeeper.apply(Read(path))
    return json.loads(node.data)["acls"] if isinstance(node, Znode) else None


async def described(connection: Connection) -> list[tuple[str, int, list[str]]]:
    """Name, pattern and principals of each resource."""
    response = await connection.request(ALL, DescribeAclsResponse, REQUEST_S)
    assert not response.error_code
    return [(r.resource_name, r.pattern_type, [acl.principal for acl in r.acls]) for r in response.resources]


async def test_created_acls_are_those_of_every_broker(broker: WorldBroker) -> None:
    brokers = await connections(broker)
    one, other = brokers
    creations = [
        AclCreation(TOPIC, name, pattern, f"User:{user}", "*", READ, ALLOW)
        for name, pattern, user in (("t", LITERAL, "alice"), ("t", LITERAL, "bob"), ("p", PREFIXED, "alice"))
    ]
    response = await one.request(CreateAclsRequest(creations), CreateAclsResponse, REQUEST_S)
    assert [result.error_code for result in response.results] == [ErrorCode.NONE] * 3
    every = [("p", PREFIXED, ["User:alice"]), ("t", LITERAL, ["User:alice", "User:bob"])]
    assert await described(one) == every  # at once
    await asyncio.sleep(1.0)
    assert await described(other) == every
    row = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}
    assert kept(broker, "/kafka-acl/Topic/t") == [row, row | {"principal": "User:bob"}]
    assert kept(broker, "/kafka-acl-extended/prefixed/Topic/p") == [row]
    wanted = DeleteAclsFilter(ANY, "t", ANY, operation=ANY, permission_type=ANY)
    deleted = await other.request(DeleteAclsRequest([wanted]), DeleteAclsResponse, REQUEST_S)
    assert [len(result.matching_acls) for result in deleted.filter_results] == [2]
    assert kept(broker, "/kafka-acl/Topic/t") is None
    await asyncio.sleep(1.0)
    assert await described(one) == [("p", PREFIXED, ["User:alice"])]


async def test_what_a_kafka_writes_is_obeyed(broker: WorldBroker) -> None:
    """The bytes of Kafka 2.6.3's own tool."""
    brokers = await connections(broker)
    rows = [{"principal": "User:carol", "permissionType": "Allow", "operation": "Read", "host": "*"}]
    zookeeper = broker.cluster.zookeeper
    zookeeper.apply(Write("/kafka-acl/Topic/k", json.dumps({"version": 1, "acls": rows})))
    zookeeper.apply(Create("/kafka-acl-changes/acl_changes_", "TOPIC:k", ephemeral=False, sequential=True))
    await asyncio.sleep(1.0)
    for connection in brokers:
        assert await described(connection) == [("k", LITERAL, ["User:carol"])]
    assert zookeeper.apply(List("/kafka-acl-changes"))
