"""Topics, settings, groups and offsets by the admin."""

from __future__ import annotations

import asyncio
from typing import assert_type

from coterie.client import (
    Acl,
    AclFilter,
    ActiveProducer,
    Admin,
    Advice,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConsumerGroupDescription,
    ErrorCode,
    FeatureMetadata,
    GroupExplanation,
    GroupListing,
    GroupState,
    GroupType,
    KafkaError,
    LintFinding,
    LogDirDescription,
    MemberDescription,
    MemberSubscription,
    MemberTasks,
    NewTopic,
    Node,
    OffsetAndMetadata,
    PartitionLag,
    PartitionReassignment,
    PushedMetric,
    SharePartitionOffset,
    TelemetryClient,
    TokenDescription,
    TopicDescription,
    TopicPartition,
    TopicPartitionInfo,
    TransactionDescription,
    TransactionListing,
    TransactionState,
    UserScramCredentialUpsertion,
)


async def topics(admin: Admin) -> None:
    assert_type(await admin.create_topic("orders", 6, {"retention.ms": "86400000"}), None)
    assert_type(await admin.create_partitions("orders", 12), None)
    described = await admin.describe_topics(["orders"])
    assert_type(described, dict[str, TopicDescription])
    for partition in described["orders"].partitions:
        assert_type(partition, TopicPartitionInfo)
        assert_type(partition.leader, Node | None)
        assert_type(partition.isr, tuple[Node, ...])
        assert_type(partition.offline_replicas, tuple[Node, ...])
        assert_type(partition.is_under_replicated, bool)
    assert_type(described["orders"].error, ErrorCode)
    configs = await admin.describe_configs("orders")
    assert_type(configs, dict[str, ConfigEntry])
    assert_type(configs["retention.ms"].value, str | None)
    assert_type(configs["retention.ms"].source, ConfigSource)
    assert_type(configs["retention.ms"].is_default, bool)
    assert_type(await admin.incremental_alter_configs("orders", {"retention.ms": None}), None)
    assert_type(await admin.partitions(["orders"]), list[TopicPartition])
    assert_type(await admin.delete_records({("orders", 0): 5}), dict[TopicPartition, int])
    assert_type(await admin.list_offsets({TopicPartition("orders", 0): -1}), dict[TopicPartition, int])
    assert_type(await admin.delete_topic("orders"), None)


async def settings_and_features(admin: Admin) -> list[str]:
    broker = ConfigResource(ConfigResourceType.BROKER, "1")
    assert_type(await admin.describe_configs(broker), dict[str, ConfigEntry])
    assert_type(await admin.incremental_alter_configs(broker, {"message.max.bytes": "1000000"}), None)
    assert_type(await admin.list_config_resources([ConfigResourceType.GROUP]), list[ConfigResource])
    assert_type(admin.each.describe_configs([broker]), dict[ConfigResource, asyncio.Future[dict[str, ConfigEntry]]])
    features = await admin.describe_features()
    assert_type(features, FeatureMetadata)
    assert_type(features.finalized["group.version"].max_version, int)
    assert_type(await admin.update_features({"group.version": 1}, validate_only=True), None)
    directories = await admin.describe_log_dirs()
    assert_type(directories, dict[int, tuple[LogDirDescription, ...]])
    return [f"{tp.topic}: {replica.size} bytes" for d in directories[1] for tp, replica in d.replicas.items()]


async def transactions(admin: Admin) -> None:
    listed = await admin.list_transactions([TransactionState.ONGOING])
    assert_type(listed, list[TransactionListing])
    described = await admin.describe_transactions([listed[0].transactional_id])
    assert_type(described, dict[str, TransactionDescription])
    assert_type(described["x"].partitions, frozenset[TopicPartition])
    producers = await admin.describe_producers([("orders", 0)])
    assert_type(producers, dict[TopicPartition, tuple[ActiveProducer, ...]])
    assert_type(await admin.abort_transaction(("orders", 0), 7, 0, 0), None)
    assert_type(await admin.fence_producers(["x"]), dict[str, tuple[int, int]])


async def logins(admin: Admin) -> bytes:
    token = await admin.create_delegation_token(renewers=["User:bob"])
    assert_type(token, TokenDescription)
    assert_type(await admin.renew_delegation_token(token.hmac), int)
    assert_type(await admin.expire_delegation_token(token.hmac), int)
    assert_type(await admin.describe_delegation_token(), list[TokenDescription])
    changes = [UserScramCredentialUpsertion("alice", "SCRAM-SHA-512", "secret")]
    assert_type(await admin.alter_user_scram_credentials(changes), None)
    assert_type(await admin.describe_user_scram_credentials(["alice"]), dict[str, dict[str, int]])
    alice = (("user", "alice"),)
    assert_type(await admin.alter_client_quotas({alice: {"producer_byte_rate": 1e6}}), None)
    quotas = await admin.describe_client_quotas(alice)
    assert_type(quotas, dict[tuple[tuple[str, str | None], ...], dict[str, float]])
    return token.hmac


async def replicas(admin: Admin) -> None:
    assert_type(await admin.create_topic("orders", 6, replication_factor=3), None)
    assert_type(await admin.create_topic("orders", assignments={0: [1, 2], 1: (2, 1)}), None)
    assert_type(await admin.elect_leaders([("orders", 0)], unclean=True), dict[TopicPartition, ErrorCode])
    assert_type(await admin.alter_partition_reassignments({("orders", 0): [1, 2], ("orders", 1): None}), None)
    listed = await admin.list_partition_reassignments()
    assert_type(listed, dict[TopicPartition, PartitionReassignment])
    assert_type([moving.adding_replicas for moving in listed.values()], list[tuple[int, ...]])


async def access(admin: Admin, acl: Acl, wanted: AclFilter) -> None:
    assert_type(await admin.create_acls([acl]), None)
    assert_type(await admin.describe_acls(), list[Acl])
    assert_type(await admin.delete_acls([wanted]), list[Acl])


async def share_offsets(admin: Admin) -> int | None:
    assert_type(await admin.alter_share_group_offsets("jobs", {("orders", 0): 7}), None)
    offsets = await admin.list_share_group_offsets("jobs", [("orders", 0)])
    assert_type(offsets, dict[TopicPartition, SharePartitionOffset])
    assert_type(await admin.delete_share_group_offsets("jobs", ["orders"]), None)
    return sum(at.start_offset for at in offsets.values()) or offsets[TopicPartition("orders", 0)].lag


async def cluster(admin: Admin) -> str:
    description = await admin.describe_cluster()
    assert_type(description, ClusterDescription)
    assert_type(description.controller, Node | None)
    return ", ".join(f"{node.host}:{node.port}" for node in description.nodes)


async def groups(admin: Admin) -> None:
    listed = await admin.list_groups([GroupState.STABLE, "Empty"])
    assert_type(listed, list[GroupListing])
    assert_type(listed[0].state, GroupState)
    assert_type(listed[0].type, GroupType)
    group = await admin.describe_consumer_group("billing")
    assert_type(group, ConsumerGroupDescription)
    assert_type(group.owners, dict[TopicPartition, MemberDescription])
    for member in group.members:
        assert_type(member.subscription, MemberSubscription | None)
        assert_type(member.assignment.topic_partitions, frozenset[TopicPartition])
        assert_type(member.tasks, MemberTasks | None)
    assert_type(await admin.remove_members_from_consumer_group("billing", ["worker-1"]), dict[str, ErrorCode])
    advices = await admin.lint_group("billing")
    assert_type(advices, list[Advice])
    assert_type(advices[0].findings, tuple[LintFinding, ...])
    assert_type(await admin.delete_consumer_group("billing"), None)


async def explained(admin: Admin) -> list[str]:
    explanation = await admin.explain_group("billing")
    assert_type(explanation, GroupExplanation)
    assert_type(explanation.state, GroupState)
    clients = await admin.telemetry_clients()
    assert_type(clients, list[TelemetryClient])
    assert_type(clients[0].metrics, tuple[PushedMetric, ...])
    if explanation.next_timeout is not None:
        assert_type(explanation.next_timeout.left_ms, int)
    return [f"{member.client_id}: {member.session_timeout_ms} ms" for member in explanation.members]


async def offsets(admin: Admin) -> int:
    await admin.alter_consumer_group_offsets("billing", {("orders", 0): OffsetAndMetadata(7, -1, "mine")})
    assert_type(await admin.alter_consumer_group_offsets("billing", {("orders", 0): 5}), None)
    assert_type(await admin.list_consumer_group_offsets("billing"), dict[TopicPartition, int])
    assert_type(await admin.list_consumer_group_offsets_metadata("billing"), dict[TopicPartition, OffsetAndMetadata])
    assert_type(await admin.delete_consumer_group_offsets("billing", [("orders", 0)]), None)
    assert_type(await admin.record_times({("orders", 0): 2}), dict[TopicPartition, int])
    lags = await admin.lag("billing")
    assert_type(lags, dict[TopicPartition, PartitionLag])
    return sum(partition.lag for partition in lags.values())


async def many(admin: Admin) -> None:
    created = admin.each.create_topics([NewTopic("a", 2), NewTopic("b", configs={"retention.ms": "1"})])
    assert_type(created, dict[str, asyncio.Future[None]])
    assert_type(await admin.each.describe_consumer_groups(["billing"])["billing"], ConsumerGroupDescription)
    assert_type(await admin.each.describe_configs(["a"])["a"], dict[str, ConfigEntry])
    ends = admin.each.list_offsets({("a", 0): -1})
    assert_type(ends, dict[TopicPartition, asyncio.Future[int]])
    assert_type(admin.each.create_partitions({"a": 4}), dict[str, asyncio.Future[None]])
    assert_type(admin.each.incremental_alter_configs({"a": {"retention.ms": None}}), dict[str, asyncio.Future[None]])
    moved = admin.each.alter_partition_reassignments({("a", 0): [1, 2]})
    assert_type(moved, dict[TopicPartition, asyncio.Future[None]])
    assert_type(admin.each.delete_records({("a", 0): 1}), dict[TopicPartition, asyncio.Future[int]])
    assert_type(admin.each.delete_topics(["a"]), dict[str, asyncio.Future[None]])
    assert_type(await admin.each.list_consumer_group_offsets(["billing"])["billing"], dict[TopicPartition, int])
    altered = admin.each.alter_consumer_group_offsets("billing", {("a", 0): 1})
    assert_type(altered, dict[TopicPartition, asyncio.Future[None]])
    deleted = admin.each.delete_consumer_group_offsets("billing", [("a", 0)])
    assert_type(deleted, dict[TopicPartition, asyncio.Future[None]])
    assert_type(admin.each.remove_members_from_consumer_group("billing", ["worker-1"]), dict[str, asyncio.Future[None]])
    assert_type(admin.each.delete_consumer_groups(["billing"]), dict[str, asyncio.Future[None]])
    try:
        await created["a"]
    except KafkaError as error:
        assert_type(error.code, ErrorCode)


async def main() -> None:
    async with Admin({"bootstrap.servers": "127.0.0.1:9092", "request.timeout.ms": 5000}) as admin:
        assert_type(admin, Admin)
        await topics(admin)
        await replicas(admin)
        await groups(admin)
        assert_type(admin.close(), None)


if __name__ == "__main__":
    asyncio.run(main())
