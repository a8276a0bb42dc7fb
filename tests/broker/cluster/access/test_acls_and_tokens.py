"""Delegation tokens of a cluster: what one broker creates is a login on every broker, and is in ZooKeeper as Apache Kafka
2.6 has it; what a Kafka writes there is a login too. The end of a token is the end of its connections. The ACLs of a
cluster: what one broker is asked to create is in force on every broker, and is in ZooKeeper as Kafka's AclAuthorizer of
2.6 has it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator

import pytest

from coterie.authentication.delegation_tokens import DelegationToken
from coterie.authentication.principal import USER, Principal
from coterie.broker.cluster.access_nodes import TokenNodes
from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.client.security import Security
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.testing.faults import Faults
from coterie.testing.local_broker import DEFAULTS
from coterie.testing.simulated import SimulatedWorld, WorldBroker, _BrokerProcess, simulate
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.security.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from coterie.wire.messages.security.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from coterie.wire.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from coterie.wire.messages.security.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from coterie.wire.messages.security.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from coterie.zookeeper.operations import Create, Delete, List, Operation, Read, Write, Znode
from tests.broker.world_scheduler import REQUEST_S, connections

TIMEOUT_S = 30.0
SETTINGS = DEFAULTS | {
    "listeners": "SASL_PLAINTEXT://:0",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.jaas.config": 'M required username="broker" password="b" user_broker="b" user_alice="a-secret";',
    "delegation.token.secret.key": "of the cluster",
    "delegation.token.expiry.check.interval.ms": "5000",
    "connection.failed.authentication.delay.ms": "1",
}
ACL_SETTINGS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:ANONYMOUS"}
ANY, TOPIC, LITERAL, PREFIXED, READ, ALLOW = 1, 2, 3, 4, 3, 3
ALL = DescribeAclsRequest(ANY, None, ANY, operation=ANY, permission_type=ANY)


async def started(world: SimulatedWorld) -> ClusterBrokers:
    cluster = ClusterBrokers(
        SETTINGS, 2, (), Faults(), [], lambda own, number, rack: _BrokerProcess(world, own, number, rack)
    )
    await cluster.start()
    return cluster


async def connected(
    cluster: ClusterBrokers, number: int, user: str, password: str, *, is_token: bool = False
) -> Connection:
    broker, mechanism = cluster.brokers[number], "SCRAM-SHA-256" if is_token else "PLAIN"
    security = Security("SASL_PLAINTEXT", mechanism=mechanism, username=user, password=password, is_token=is_token)
    return await Connection.connect(broker.host, broker.port, "c", TIMEOUT_S, security)


async def by_token(cluster: ClusterBrokers, number: int, token_id: str, hmac: bytes) -> Connection:
    return await connected(cluster, number, token_id, base64.b64encode(hmac).decode(), is_token=True)


async def created(connection: Connection, lifetime_ms: int = -1) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(None, None, [], lifetime_ms)
    response = await connection.request(request, CreateDelegationTokenResponse, TIMEOUT_S)
    assert response.error_code == ErrorCode.NONE
    return response


async def is_served(connection: Connection) -> bool:
    return bool((await connection.request(MetadataRequest([]), MetadataResponse, TIMEOUT_S)).brokers)


async def test_a_token_is_a_login_on_every_broker_until_it_ends(coterie_world: SimulatedWorld) -> None:
    cluster = await started(coterie_world)
    alice = await connected(cluster, 1, "alice", "a-secret")
    token = await created(alice)
    own = await by_token(cluster, 1, token.token_id, token.hmac)  # at once
    await asyncio.sleep(1.0)
    other = await by_token(cluster, 2, token.token_id, token.hmac)
    assert await is_served(own)
    assert await is_served(other)
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        await by_token(cluster, 2, token.token_id, b"another")
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        await by_token(cluster, 2, "another", token.hmac)
    requested = await other.request(
        CreateDelegationTokenRequest(None, None, [], -1), CreateDelegationTokenResponse, TIMEOUT_S
    )
    assert requested.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    node = cluster.zookeeper.apply(Read(f"/delegation_token/tokens/{token.token_id}"))
    assert isinstance(node, Znode)
    assert json.loads(node.data)["owner"] == "User%3Aalice"
    ended = await alice.request(ExpireDelegationTokenRequest(token.hmac, -1), ExpireDelegationTokenResponse, TIMEOUT_S)
    assert ended.error_code == ErrorCode.NONE
    await asyncio.sleep(1.0)
    for number in (1, 2):
        with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
            await by_token(cluster, number, token.token_id, token.hmac)
    assert cluster.zookeeper.apply(List("/delegation_token/tokens")) == []
    await cluster.stop()


async def test_what_a_kafka_writes_is_a_login(coterie_world: SimulatedWorld) -> None:
    """The JSON of Kafka 2.6's DelegationTokenManager."""
    cluster = await started(coterie_world)
    now_ms = cluster.brokers[1].broker.clock.now_ms()
    row = {
        "version": 1,
        "owner": "User%3Abob",
        "renewers": ["User%3Aalice"],
        "issueTimestamp": now_ms,
        "maxTimestamp": now_ms + 60_000,
        "expiryTimestamp": now_ms + 60_000,
        "tokenId": "kafkas",
    }
    cluster.zookeeper.apply(Write("/delegation_token/tokens/kafkas", json.dumps(row)))
    change = Create("/delegation_token/token_changes/token_change_", "kafkas", ephemeral=False, sequential=True)
    cluster.zookeeper.apply(change)
    await asyncio.sleep(1.0)
    hmac = cluster.brokers[1].broker.clients.tokens.limits.hmac_of("kafkas")
    for number in (1, 2):
        assert await is_served(await by_token(cluster, number, "kafkas", hmac))
    await cluster.stop()


async def test_the_end_of_a_token_ends_its_connections_and_the_controller_removes_it(
    coterie_world: SimulatedWorld,
) -> None:
    cluster = await started(coterie_world)
    token = await created(await connected(cluster, 1, "alice", "a-secret"), lifetime_ms=2_000)
    connection = await by_token(cluster, 1, token.token_id, token.hmac)
    assert await is_served(connection)
    await asyncio.sleep(2.5)
    with pytest.raises(KafkaError):
        await is_served(connection)
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        await by_token(cluster, 2, token.token_id, token.hmac)
    await asyncio.sleep(10)
    assert cluster.zookeeper.apply(List("/delegation_token/tokens")) == []
    assert [cluster.brokers[number].broker.clients.tokens.every() for number in (1, 2)] == [[], []]
    await cluster.stop()


async def test_a_token_is_in_force_here_before_its_notification_comes_back() -> None:
    applied: list[object] = []
    written: list[tuple[str, object]] = []

    async def apply(operation: Operation) -> None:
        applied.append(operation)

    user = Principal(USER, "alice")
    token = DelegationToken("id", user, user, (), 1, 3, 2)
    nodes = TokenNodes(apply, lambda token_id, made: written.append((token_id, made)))
    await nodes.write("id", token)
    await nodes.write("id", None)
    assert [type(operation) for operation in applied] == [Write, Create, Delete, Create]
    assert written == [("id", token), ("id", None)]


@pytest.fixture
def broker() -> Iterator[WorldBroker]:
    with simulate(seed=1) as world:
        yield world.broker(ACL_SETTINGS, brokers=2)


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
