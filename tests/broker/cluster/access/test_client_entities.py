"""Client quotas and SCRAM credentials of a cluster: what one broker is asked to set every broker describes, and ZooKeeper has
it as Kafka's own brokers write it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from coterie.client.connection.connection import Connection
from coterie.client.errors import KafkaError
from coterie.controller import nodes
from coterie.quotas import Entity
from coterie.testing import ErrorCode
from coterie.testing.simulated import WorldBroker, simulate
from coterie.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from coterie.wire.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from coterie.wire.messages.settings.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from coterie.wire.messages.settings.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from coterie.zookeeper.operations import Create, Read, Write, Znode
from tests.broker.world_scheduler import REQUEST_S, connections

PRODUCED, PERCENT, CREATED = "producer_byte_rate", "request_percentage", "connection_creation_rate"
ALICE, ANYBODY = (("user", "alice"),), (("user", None),)
HER_APP, APP, HOST = (("client-id", "a/b"), ("user", "alice")), (("client-id", "app"),), (("ip", "127.0.0.9"),)
QUOTAS: dict[Entity, dict[str, float]] = {
    ALICE: {PRODUCED: 2048.0},
    ANYBODY: {PERCENT: 12.5},
    HER_APP: {PRODUCED: 1.0},
    APP: {PERCENT: 75.0},
    HOST: {CREATED: 10.0},
}


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[WorldBroker]:
    with simulate(seed=1) as world:
        yield world.broker(getattr(request, "param", None), brokers=2)


async def alter(one: Connection, changes: dict[Entity, dict[str, float | None]]) -> list[int]:
    entries = [
        EntryData(
            [EntityData(kind, name) for kind, name in entity],
            [OpData(key, value or 0.0, remove=value is None) for key, value in values.items()],
        )
        for entity, values in changes.items()
    ]
    response = await one.request(AlterClientQuotasRequest(entries), AlterClientQuotasResponse, REQUEST_S)
    return [entry.error_code for entry in response.entries]


async def quotas_of(one: Connection) -> dict[Entity, dict[str, float]]:
    response = await one.request(DescribeClientQuotasRequest([]), DescribeClientQuotasResponse, REQUEST_S)
    assert response.entries is not None
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries
    }


def node(broker: WorldBroker, path: str) -> dict[str, str]:
    written = broker._cluster.zookeeper.apply(Read(f"/config/{path}"))  # type: ignore[union-attr]
    assert isinstance(written, Znode)
    return dict(json.loads(written.data)["config"])


async def test_quotas_that_one_broker_sets_every_broker_describes(broker: WorldBroker) -> None:
    brokers = await connections(broker)
    set_all = {entity: dict[str, float | None](values) for entity, values in QUOTAS.items()}
    assert await alter(brokers[0], set_all) == [0] * len(QUOTAS)
    for one in brokers:
        assert await quotas_of(one) == QUOTAS
    assert await alter(brokers[1], {ALICE: {PRODUCED: None, PERCENT: 5.0}, APP: {PERCENT: None}}) == [0, 0]
    for one in brokers:
        assert await quotas_of(one) == {**{e: v for e, v in QUOTAS.items() if e != APP}, ALICE: {PERCENT: 5.0}}
    assert node(broker, "users/alice") == {PERCENT: "5.0"}
    assert node(broker, "users/alice/clients/a%2Fb") == {PRODUCED: "1"}
    assert node(broker, "users/<default>") == {PERCENT: "12.5"}
    assert node(broker, "ips/127.0.0.9") == {CREATED: "10"}


async def test_a_quota_that_cannot_be_is_refused_and_the_others_are_set(broker: WorldBroker) -> None:
    brokers = await connections(broker)
    codes = await alter(brokers[0], {ALICE: {PRODUCED: -1.0}, APP: {PERCENT: 75.0}})
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert await quotas_of(brokers[1]) == {APP: {PERCENT: 75.0}}


@pytest.mark.parametrize("broker", [{"inter.broker.protocol.version": "2.6"}], indirect=True)
async def test_an_address_has_no_quota_beside_brokers_of_kafka_2_6(broker: WorldBroker) -> None:
    one, other = await connections(broker)
    codes = await alter(one, {HOST: {CREATED: 1.0}, APP: {PERCENT: 1.0}})
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert await quotas_of(other) == {APP: {PERCENT: 1.0}}


async def test_credentials_that_one_broker_sets_every_broker_describes(broker: WorldBroker) -> None:
    """Beside the quotas of the user, which has one node for both."""

    async def altered(one: Connection, request: AlterUserScramCredentialsRequest) -> list[int]:
        response = await one.request(request, AlterUserScramCredentialsResponse, REQUEST_S)
        return [result.error_code for result in response.results]

    async def described(one: Connection) -> dict[str, list[tuple[int, int]]]:
        response = await one.request(
            DescribeUserScramCredentialsRequest(), DescribeUserScramCredentialsResponse, REQUEST_S
        )
        return {r.user: [(c.mechanism, c.iterations) for c in r.credential_infos] for r in response.results}

    brokers = await connections(broker)
    first, second = brokers
    upserted = [ScramCredentialUpsertion("alice", number, 4096, b"salt", b"p" * 32) for number in (1,)]
    assert await alter(first, {ALICE: {PRODUCED: 5.0}}) == [0]
    assert await altered(first, AlterUserScramCredentialsRequest([], upserted)) == [0]
    both = [ScramCredentialUpsertion("alice", 2, 8192, b"salt", b"p" * 64)]
    assert await altered(second, AlterUserScramCredentialsRequest([], both)) == [0]
    for one in brokers:
        assert await described(one) == {"alice": [(1, 4096), (2, 8192)]}
        assert await quotas_of(one) == {ALICE: {PRODUCED: 5.0}}
    gone = AlterUserScramCredentialsRequest([ScramCredentialDeletion("alice", 1)])
    assert await altered(second, gone) == [0]
    assert await altered(first, gone) == [ErrorCode.RESOURCE_NOT_FOUND]
    for one in brokers:
        assert await described(one) == {"alice": [(2, 8192)]}
    kept = node(broker, "users/alice")["SCRAM-SHA-512"]
    assert [part.partition("=")[0] for part in kept.split(",")] == ["salt", "stored_key", "server_key", "iterations"]


async def test_a_node_that_kafka_wrote_is_described(broker: WorldBroker) -> None:
    data = nodes.settings(
        {"consumer_byte_rate": "4096", "SCRAM-SHA-256": "salt=cw==,stored_key=a=,server_key=b=,iterations=4096"}
    )
    broker._cluster.zookeeper.apply(Write("/config/users/bob", data))  # type: ignore[union-attr]
    brokers = await connections(broker)
    assert await quotas_of(brokers[1]) == {(("user", "bob"),): {"consumer_byte_rate": 4096.0}}


ENTITIES: dict[str, dict[str, str]] = {
    "users/bob": {
        "consumer_byte_rate": "4096",
        "SCRAM-SHA-256": "salt=cw==,stored_key=YQ==,server_key=YQ==,iterations=4096",
    },
    "users/bob/clients/a%2Fb": {PRODUCED: "1"},
    "clients/<default>": {PERCENT: "2.5"},
    "ips/127.0.0.9": {CREATED: "10"},
    "users/mallory": {PRODUCED: "many", "SCRAM-SHA-256": "salt=cw=="},
}
IN_FORCE: dict[Entity, dict[str, float]] = {
    (("user", "bob"),): {"consumer_byte_rate": 4096.0},
    (("client-id", "a/b"), ("user", "bob")): {PRODUCED: 1.0},
    (("client-id", None),): {PERCENT: 2.5},
    HOST: {CREATED: 10.0},
}


def in_force(broker: WorldBroker, number: int) -> tuple[dict[Entity, dict[str, float]], list[str]]:
    assert broker._cluster is not None
    clients = broker._cluster.brokers[number].broker.clients
    return {entity: dict(values) for entity, values in clients.quotas.values.items()}, clients.scram_credentials.users()


def test_what_another_sets_is_in_force_without_a_request(broker: WorldBroker) -> None:
    """Kafka's DynamicConfigManager: by the notification, each kind of entity; what is not valid leaves the rest."""
    zookeeper = broker._cluster.zookeeper  # type: ignore[union-attr]
    for path, settings in ENTITIES.items():
        zookeeper.apply(Write(f"/config/{path}", nodes.settings(settings)))
        kind, _, name = path.partition("/")
        zookeeper.apply(
            Create("/config/changes/config_change_", nodes.config_change(kind, name), ephemeral=False, sequential=True)
        )
    broker.world.advance(1.0)
    assert [in_force(broker, number) for number in (1, 2)] == [(IN_FORCE, ["bob"])] * 2


def test_a_broker_knows_users_before_the_first_connection(broker: WorldBroker) -> None:
    """Or a login by a credential in ZooKeeper would fail, for good, at a broker that has just started."""
    zookeeper = broker._cluster.zookeeper  # type: ignore[union-attr]
    for path, settings in ENTITIES.items():
        zookeeper.apply(Write(f"/config/{path}", nodes.settings(settings)))
    broker.stop(2)
    known: list[object] = []

    async def story() -> None:
        assert broker._cluster is not None
        host, port = broker._cluster.brokers[2].host, broker._cluster.brokers[2].port
        starting = asyncio.create_task(broker._cluster.brokers[2].start())
        while not known:
            try:
                connection = await Connection.connect(host, port, "test", REQUEST_S)
            except KafkaError:
                await asyncio.sleep(0.001)
            else:
                known.append(in_force(broker, 2))
                connection.close()
        await starting

    broker.world.run(story())
    assert known == [(IN_FORCE, ["bob"])]
