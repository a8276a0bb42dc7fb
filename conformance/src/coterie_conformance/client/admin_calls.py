"""Our admin's calls about settings, log directories, quotas, users, transactions and producers against a real broker: checks as
those of `checks`. What an older broker does not serve is passed over: users before Kafka 2.7, producers before 2.8,
transactions before 3.0, lists of groups with settings before 4.1."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from coterie.client import (
    ConfigResource,
    ConfigResourceType,
    KafkaError,
    ProducerFencedError,
    TopicPartition,
    TransactionState,
    UnsupportedVersionError,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from coterie.wire.errors import ErrorCode
from coterie_conformance.client.checks import BrokerUnderTest, until

T = TypeVar("T")


async def _served(call: Awaitable[T]) -> T | None:
    """None where ApiVersions of the broker lacks the call. Raises KafkaError."""
    try:
        return await call
    except UnsupportedVersionError:
        return None


async def _refusal(call: Awaitable[object]) -> KafkaError | None:
    try:
        await call
    except KafkaError as error:
        return error
    return None


async def settings_and_log_directories(broker: BrokerUnderTest) -> None:
    """Settings of a broker and of all, of a group; log directories with sizes; features."""
    topic = await broker.topic("directories")
    async with broker.producer() as producer:
        await (await producer.send(topic, b"a record"))
    async with broker.admin() as admin:
        (node,) = (await admin.describe_cluster()).nodes
        one, every = (ConfigResource(ConfigResourceType.BROKER, name) for name in (str(node.id), ""))
        assert "num.partitions" in await admin.describe_configs(one)
        await admin.incremental_alter_configs(every, {"log.retention.ms": "7200000"})

        async def altered() -> bool:
            return (await admin.describe_configs(one))["log.retention.ms"].value == "7200000"

        await until(altered, "the setting of all brokers is altered")
        await admin.incremental_alter_configs(every, {"log.retention.ms": None})
        directories = (await admin.describe_log_dirs())[node.id]
        sizes = [d.replicas[TopicPartition(topic, 0)].size for d in directories if (topic, 0) in d.replicas]
        assert len(sizes) == 1, directories
        assert sizes[0] > len(b"a record")
        features = await admin.describe_features()
        assert features.finalized.keys() <= features.supported.keys()
        group = ConfigResource(ConfigResourceType.GROUP, broker.name("settings"))
        wanted = [ConfigResourceType.GROUP]
        if await _served(admin.list_config_resources(wanted)) is not None:
            await admin.incremental_alter_configs(group, {"consumer.session.timeout.ms": "50000"})

            async def listed() -> bool:
                return group in await admin.list_config_resources(wanted)

            await until(listed, "the group has settings")


async def quotas_and_users(broker: BrokerUnderTest) -> None:
    """Quotas are set and removed, users added and removed; a delegation token is not for a client without a login."""
    user = broker.name("alice")
    entity = (("user", user),)
    async with broker.admin() as admin:
        await admin.alter_client_quotas({entity: {"producer_byte_rate": 1e9}})

        async def limited() -> bool:
            return await admin.describe_client_quotas(entity) == {entity: {"producer_byte_rate": 1e9}}

        await until(limited, "the quota is set")
        await admin.alter_client_quotas({entity: {"producer_byte_rate": None}})
        if await _served(admin.describe_user_scram_credentials()) is not None:
            await admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, "SCRAM-SHA-256", "secret")])

            async def known() -> bool:
                described = await admin.describe_user_scram_credentials([user], errors={})
                return described == {user: {"SCRAM-SHA-256": 4096}}

            await until(known, "the user has a credential")
            await admin.alter_user_scram_credentials([UserScramCredentialDeletion(user, "SCRAM-SHA-256")])
        refusal = await _refusal(admin.create_delegation_token())
        assert refusal is not None
        assert refusal.code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, refusal


async def transactions_from_outside(broker: BrokerUnderTest) -> None:
    """An open transaction is listed and described, its producer is in the log, and fenced; one partition of it is aborted."""
    topic, name = await broker.topic("outside"), broker.name("outside")
    where = TopicPartition(topic, 0)
    async with broker.admin() as admin, broker.producer(transactional_id=name) as producer:
        await producer.init_transactions()
        producer.begin_transaction()
        await (await producer.send(topic, b"v"))
        described = await _served(admin.describe_transactions([name]))
        if described is not None:
            assert (described[name].state, described[name].partitions) == (TransactionState.ONGOING, frozenset({where}))
            listed = await admin.list_transactions([TransactionState.ONGOING])
            assert name in {transaction.transactional_id for transaction in listed}
        producers = await _served(admin.describe_producers([where]))
        if producers is not None:
            (active,) = producers[where]
            assert active.transaction_start_offset == 0
            await admin.abort_transaction(where, active.producer_id, active.producer_epoch, active.coordinator_epoch)

            async def aborted() -> bool:
                (active,) = (await admin.describe_producers([where]))[where]
                return active.transaction_start_offset is None

            await until(aborted, "the partition has no open transaction")
        assert (await admin.fence_producers([name])).keys() == {name}
        assert isinstance(await _refusal(producer.commit_transaction()), ProducerFencedError)


ADMIN_CHECKS: tuple[Callable[[BrokerUnderTest], Awaitable[None]], ...] = (
    settings_and_log_directories,
    quotas_and_users,
    transactions_from_outside,
)
