"""An admin's calls about settings of more than topics, features, log directories, transactions, delegation tokens, quotas
and SCRAM users, each with one item that is refused beside one that is not."""

from __future__ import annotations

import asyncio
import base64

import pytest

from coterie.client import (
    Admin,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    FeatureUpgradeType,
    KafkaError,
    Node,
    Producer,
    ProducerFencedError,
    TopicPartition,
    TransactionState,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    VersionRange,
)
from coterie.client.types import ClientQuotaEntity
from coterie.testing import ErrorCode, LocalBroker

BROKER = ConfigResource(ConfigResourceType.BROKER, "1")
EVERY_BROKER = ConfigResource(ConfigResourceType.BROKER, "")
NO_BROKER = ConfigResource(ConfigResourceType.BROKER, "7")
GROUP = ConfigResource(ConfigResourceType.GROUP, "g")
METRICS = ConfigResource(ConfigResourceType.CLIENT_METRICS, "m")
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def admin_of(broker: LocalBroker) -> Admin:
    return Admin({"bootstrap.servers": broker.bootstrap_servers})


async def test_settings_of_brokers_groups_and_client_metrics(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    async with asyncio.timeout(20), admin_of(coterie_broker) as admin:
        await admin.incremental_alter_configs(EVERY_BROKER, {"message.max.bytes": "5000"})
        await admin.incremental_alter_configs(BROKER, {"message.max.bytes": "6000"})
        entry = (await admin.describe_configs(BROKER))["message.max.bytes"]
        assert (entry.value, entry.source) == ("6000", ConfigSource.DYNAMIC_BROKER_CONFIG)
        await admin.incremental_alter_configs(BROKER, {"message.max.bytes": None})
        entry = (await admin.describe_configs(BROKER))["message.max.bytes"]
        assert (entry.value, entry.source) == ("5000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        changes: dict[ConfigResource | str, dict[str, str | None]] = {
            "t": {"retention.ms": "7"},
            GROUP: {"consumer.session.timeout.ms": "50000"},
            METRICS: {"interval.ms": "1000"},
            NO_BROKER: {"message.max.bytes": "1"},
        }
        futures = admin.each.incremental_alter_configs(changes)
        outcomes = await asyncio.gather(*futures.values(), return_exceptions=True)
        assert list(futures) == list(changes)
        assert outcomes[:3] == [None, None, None]
        with pytest.raises(KafkaError, match="the cluster has no broker 7") as caught:
            await futures[NO_BROKER]
        assert caught.value.code == ErrorCode.INVALID_REQUEST
        resources: list[ConfigResource | str] = [GROUP, "t", METRICS]
        described = admin.each.describe_configs(resources)
        assert (await described["t"])["retention.ms"].value == "7"
        assert (await described[GROUP])["consumer.session.timeout.ms"].source is ConfigSource.DYNAMIC_GROUP_CONFIG
        assert (await described[METRICS])["interval.ms"].value == "1000"
        assert await admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]) == [METRICS]
        assert {ConfigResource(ConfigResourceType.TOPIC, "t"), BROKER, GROUP, METRICS} <= set(
            await admin.list_config_resources()
        )


async def test_a_resource_that_is_none_is_an_error_of_the_call(coterie_broker: LocalBroker) -> None:
    twice: list[ConfigResource | str] = ["t", ConfigResource(ConfigResourceType.TOPIC, "t")]
    async with admin_of(coterie_broker) as admin:
        with pytest.raises(ValueError, match="named by its id, not 'one'"):
            admin.each.describe_configs([ConfigResource(ConfigResourceType.BROKER, "one")])
        with pytest.raises(ValueError, match="named twice"):
            admin.each.describe_configs(twice)
        with pytest.raises(TypeError, match="must be a list"):
            admin.each.describe_configs(BROKER)  # type: ignore[type-var]
        with pytest.raises(TypeError, match="a topic's name or a ConfigResource, not 7"):
            await admin.describe_configs(7)  # type: ignore[arg-type]


async def test_features(coterie_broker: LocalBroker) -> None:
    async with asyncio.timeout(20), admin_of(coterie_broker) as admin:
        features = await admin.describe_features()
        assert features.finalized["group.version"] == VersionRange(1, 1)
        assert features.supported["group.version"] == VersionRange(0, 1)
        with pytest.raises(KafkaError) as caught:
            await admin.update_features({"group.version": 0})
        assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION
        downgrade = FeatureUpgradeType.SAFE_DOWNGRADE
        await admin.update_features({"group.version": 0}, upgrade_type=downgrade, validate_only=True)
        assert await admin.describe_features() == features
        await admin.update_features({"group.version": 0}, upgrade_type=downgrade)
        assert "group.version" not in (await admin.describe_features()).finalized


async def test_log_directories(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 2)
    coterie_broker.produce("t", b"a record", partition=1)
    async with asyncio.timeout(20), admin_of(coterie_broker) as admin:
        (directory,) = (await admin.describe_log_dirs([1]))[1]
        assert directory.error is ErrorCode.NONE
        sizes = [directory.replicas[TopicPartition("t", partition)].size for partition in (0, 1)]
        assert sizes[0] == 0 < len(b"a record") < sizes[1]
        errors: dict[Node, KafkaError] = {}
        coterie_broker.fail("DescribeLogDirs", ErrorCode.CLUSTER_AUTHORIZATION_FAILED, times=1)
        assert await admin.describe_log_dirs(errors=errors) == {}
        assert [(node.id, error.code) for node, error in errors.items()] == [
            (1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        ]
        with pytest.raises(KafkaError, match="broker 7 is not among the brokers"):
            async with Admin(
                {"bootstrap.servers": coterie_broker.bootstrap_servers, "default.api.timeout.ms": 50}
            ) as hasty:
                await hasty.describe_log_dirs([7])


async def test_a_transaction_is_seen_and_its_producer_fenced(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    servers = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    where = TopicPartition("t", 0)
    async with asyncio.timeout(20), admin_of(coterie_broker) as admin:
        async with Producer(servers | {"transactional.id": "x", "transaction.timeout.ms": 40_000}) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await (await producer.send("t", b"v"))
            (listed,) = await admin.list_transactions([TransactionState.ONGOING], pattern="x|y")
            assert (listed.transactional_id, listed.state) == ("x", TransactionState.ONGOING)
            assert await admin.list_transactions(["Empty"]) == []
            assert await admin.list_transactions(producer_ids=[listed.producer_id + 1]) == []
            errors: dict[str, KafkaError] = {}
            described = await admin.describe_transactions(["none", "x"], errors=errors)
            assert errors["none"].code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            assert (described["x"].timeout_ms, described["x"].partitions) == (40_000, {where})
            assert described["x"].start_ms is not None
            missing: dict[TopicPartition, KafkaError] = {}
            producers = await admin.describe_producers([("none", 0), where], errors=missing)
            assert [error.code for error in missing.values()] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            (active,) = producers[where]
            assert (active.producer_id, active.transaction_start_offset) == (listed.producer_id, 0)
            fenced = await admin.fence_producers(["x"])
            assert fenced["x"][0] == listed.producer_id
            assert fenced["x"][1] > active.producer_epoch
            with pytest.raises(ProducerFencedError):
                await producer.commit_transaction()
        assert (await admin.describe_producers([where]))[where][0].transaction_start_offset is None


async def test_a_transaction_that_hangs_in_one_partition_is_aborted(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    servers = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    async with asyncio.timeout(20), admin_of(coterie_broker) as admin:
        async with Producer(servers | {"transactional.id": "x"}) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await (await producer.send("t", b"v"))
            (active,) = (await admin.describe_producers([("t", 0)]))["t", 0]  # type: ignore[index]
            await admin.abort_transaction(("t", 0), active.producer_id, active.producer_epoch, active.coordinator_epoch)
            (active,) = (await admin.describe_producers([("t", 0)]))["t", 0]  # type: ignore[index]
            assert active.transaction_start_offset is None
            await producer.abort_transaction()
        with pytest.raises(KafkaError, match="none-0"):
            await admin.abort_transaction(("none", 0), 1, 0, 0)


async def test_quotas(coterie_broker: LocalBroker) -> None:
    alice, default, wrong = (("user", "alice"),), (("user", None),), (("planet", "mars"),)
    async with asyncio.timeout(20), admin_of(coterie_broker) as admin:
        errors: dict[ClientQuotaEntity, KafkaError] = {}
        changes: dict[ClientQuotaEntity, dict[str, float | None]] = {
            alice: {"producer_byte_rate": 1e6, "request_percentage": 200.0},
            wrong: {"producer_byte_rate": 1.0},
            default: {"producer_byte_rate": 2e6},
        }
        await admin.alter_client_quotas(changes, errors=errors)
        assert {entity: error.code for entity, error in errors.items()} == {wrong: ErrorCode.INVALID_REQUEST}
        assert await admin.describe_client_quotas() == {alice: changes[alice], default: changes[default]}
        assert list(await admin.describe_client_quotas(alice)) == [alice]
        assert list(await admin.describe_client_quotas(default, strict=True)) == [default]
        assert len(await admin.describe_client_quotas((("user", "*"),))) == 2
        await admin.alter_client_quotas({alice: {"producer_byte_rate": None}})
        assert (await admin.describe_client_quotas())[alice] == {"request_percentage": 200.0}
        with pytest.raises(KafkaError):
            await admin.alter_client_quotas({wrong: {"producer_byte_rate": 1.0}})
        with pytest.raises(ValueError, match="at least one"):
            await admin.alter_client_quotas({(): {}})
        with pytest.raises(TypeError, match="is a tuple of"):
            await admin.alter_client_quotas({("user", "alice"): {}})  # type: ignore[dict-item]


async def test_users(coterie_broker: LocalBroker) -> None:
    async with asyncio.timeout(20), admin_of(coterie_broker) as admin:
        await admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion("alice", SHA_256, "a", 8192),
                UserScramCredentialUpsertion("bob", SHA_512, "b"),
            ]
        )
        assert await admin.describe_user_scram_credentials() == {"alice": {SHA_256: 8192}, "bob": {SHA_512: 4096}}
        errors: dict[str, KafkaError] = {}
        assert await admin.describe_user_scram_credentials(["none", "bob"], errors=errors) == {"bob": {SHA_512: 4096}}
        assert errors.pop("none").code == ErrorCode.RESOURCE_NOT_FOUND
        deletions = [UserScramCredentialDeletion(user, SHA_256) for user in ("bob", "alice")]
        await admin.alter_user_scram_credentials(deletions, errors=errors)
        assert {user: error.code for user, error in errors.items()} == {"bob": ErrorCode.RESOURCE_NOT_FOUND}
        assert await admin.describe_user_scram_credentials() == {"bob": {SHA_512: 4096}}
        with pytest.raises(ValueError, match="mechanism must be SCRAM-SHA-256 or SCRAM-SHA-512, not 'PLAIN'"):
            await admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", "PLAIN")])
    assert "secret" not in repr(UserScramCredentialUpsertion("bob", SHA_512, "secret", salt=b"secret"))


def test_delegation_tokens() -> None:
    settings = {"delegation.token.secret.key": "of all brokers", "sasl.enabled.mechanisms": SHA_256}

    async def story(broker: LocalBroker) -> None:
        async with Admin(broker.client_settings("alice", SHA_256)) as admin:
            token = await admin.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=60_000)
            assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
            assert token.max_ms == token.issued_ms + 60_000
            assert "hmac" not in repr(token)
            assert await admin.describe_delegation_token() == [token]
            assert await admin.describe_delegation_token(["User:carol"]) == []
            assert await admin.renew_delegation_token(token.hmac) == token.max_ms
            password = base64.b64encode(token.hmac).decode()
            config = f'required username="{token.token_id}" password="{password}" tokenauth="true";'
            module = "org.apache.kafka.common.security.scram.ScramLoginModule"
            by_token = {"sasl.jaas.config": f"{module} {config}", "sasl.mechanism": SHA_256}
            given = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"} | by_token
            async with Admin(given) as guest:
                await guest.describe_cluster()
                with pytest.raises(KafkaError) as caught:
                    await guest.create_delegation_token()
            assert caught.value.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert await admin.expire_delegation_token(token.hmac) <= token.max_ms
            with pytest.raises(KafkaError) as caught:
                await admin.renew_delegation_token(token.hmac)
            assert caught.value.code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
            with pytest.raises(ValueError, match="such as \"User:alice\", not 'bob'"):
                await admin.create_delegation_token(renewers=["bob"])
            with pytest.raises(TypeError, match="hmac must be bytes"):
                await admin.expire_delegation_token("no bytes")  # type: ignore[arg-type]

    with LocalBroker(settings, sasl={"alice": "a", "bob": "b"}) as broker:
        asyncio.run(asyncio.wait_for(story(broker), 20))
