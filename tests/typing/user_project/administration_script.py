"""Topics, settings, groups and offsets by the blocking admin, in a script."""

from __future__ import annotations

from concurrent.futures import Future
from typing import assert_type

from coterie.client import (
    Acl,
    AclFilter,
    Advice,
    ClusterDescription,
    ConfigEntry,
    ConfigSource,
    ConsumerGroupDescription,
    ErrorCode,
    GroupExplanation,
    GroupListing,
    GroupState,
    GroupType,
    LintFinding,
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
    TopicDescription,
    TopicPartition,
    TopicPartitionInfo,
)
from coterie.client.blocking import BlockingAdmin


def topics(admin: BlockingAdmin) -> None:
    assert_type(admin.create_topic("orders", 6, {"retention.ms": "86400000"}), None)
    assert_type(admin.create_partitions("orders", 12), None)
    described = admin.describe_topics(["orders"])
    assert_type(described, dict[str, TopicDescription])
    for partition in described["orders"].partitions:
        assert_type(partition, TopicPartitionInfo)
        assert_type(partition.leader, Node | None)
        assert_type(partition.isr, tuple[Node, ...])
        assert_type(partition.offline_replicas, tuple[Node, ...])
        assert_type(partition.is_under_replicated, bool)
    assert_type(described["orders"].error, ErrorCode)
    configs = admin.describe_configs("orders")
    assert_type(configs, dict[str, ConfigEntry])
    assert_type(configs["retention.ms"].value, str | None)
    assert_type(configs["retention.ms"].source, ConfigSource)
    assert_type(configs["retention.ms"].is_default, bool)
    assert_type(admin.incremental_alter_configs("orders", {"retention.ms": None}), None)
    assert_type(admin.partitions(["orders"]), list[TopicPartition])
    assert_type(admin.delete_records({("orders", 0): 5}), dict[TopicPartition, int])
    assert_type(admin.list_offsets({TopicPartition("orders", 0): -1}), dict[TopicPartition, int])
    assert_type(admin.delete_topic("orders"), None)


def replicas(admin: BlockingAdmin) -> None:
    assert_type(admin.create_topic("orders", 6, replication_factor=3), None)
    assert_type(admin.create_topic("orders", assignments={0: [1, 2], 1: (2, 1)}), None)
    assert_type(admin.elect_leaders([("orders", 0)], unclean=True), dict[TopicPartition, ErrorCode])
    assert_type(admin.alter_partition_reassignments({("orders", 0): [1, 2], ("orders", 1): None}), None)
    listed = admin.list_partition_reassignments()
    assert_type(listed, dict[TopicPartition, PartitionReassignment])
    assert_type([moving.adding_replicas for moving in listed.values()], list[tuple[int, ...]])


def access(admin: BlockingAdmin, acl: Acl, wanted: AclFilter) -> None:
    assert_type(admin.create_acls([acl]), None)
    assert_type(admin.describe_acls(), list[Acl])
    assert_type(admin.delete_acls([wanted]), list[Acl])


def share_offsets(admin: BlockingAdmin) -> int | None:
    assert_type(admin.alter_share_group_offsets("jobs", {("orders", 0): 7}), None)
    offsets = admin.list_share_group_offsets("jobs", [("orders", 0)])
    assert_type(offsets, dict[TopicPartition, SharePartitionOffset])
    assert_type(admin.delete_share_group_offsets("jobs", ["orders"]), None)
    return sum(at.start_offset for at in offsets.values()) or offsets[TopicPartition("orders", 0)].lag


def cluster(admin: BlockingAdmin) -> str:
    description = admin.describe_cluster()
    assert_type(description, ClusterDescription)
    assert_type(description.controller, Node | None)
    return ", ".join(f"{node.host}:{node.port}" for node in description.nodes)


def groups(admin: BlockingAdmin) -> None:
    listed = admin.list_consumer_groups([GroupState.STABLE, "Empty"])
    assert_type(listed, list[GroupListing])
    assert_type(listed[0].state, GroupState)
    assert_type(listed[0].type, GroupType)
    group = admin.describe_consumer_group("billing")
    assert_type(group, ConsumerGroupDescription)
    assert_type(group.owners, dict[TopicPartition, MemberDescription])
    for member in group.members:
        assert_type(member.subscription, MemberSubscription | None)
        assert_type(member.assignment.topic_partitions, frozenset[TopicPartition])
        assert_type(member.tasks, MemberTasks | None)
    assert_type(admin.remove_members_from_consumer_group("billing", ["worker-1"]), dict[str, ErrorCode])
    advices = admin.lint_group("billing")
    assert_type(advices, list[Advice])
    assert_type(advices[0].findings, tuple[LintFinding, ...])
    assert_type(admin.delete_consumer_group("billing"), None)


def explained(admin: BlockingAdmin) -> list[str]:
    explanation = admin.explain_group("billing")
    assert_type(explanation, GroupExplanation)
    assert_type(explanation.state, GroupState)
    clients = admin.telemetry_clients()
    assert_type(clients, list[TelemetryClient])
    assert_type(clients[0].metrics, tuple[PushedMetric, ...])
    if explanation.next_timeout is not None:
        assert_type(explanation.next_timeout.left_ms, int)
    return [f"{member.client_id}: {member.session_timeout_ms} ms" for member in explanation.members]


def offsets(admin: BlockingAdmin) -> int:
    admin.alter_consumer_group_offsets("billing", {("orders", 0): OffsetAndMetadata(7, -1, "mine")})
    assert_type(admin.alter_consumer_group_offsets("billing", {("orders", 0): 5}), None)
    assert_type(admin.list_consumer_group_offsets("billing"), dict[TopicPartition, int])
    assert_type(admin.list_consumer_group_offsets_metadata("billing"), dict[TopicPartition, OffsetAndMetadata])
    assert_type(admin.delete_consumer_group_offsets("billing", [("orders", 0)]), None)
    assert_type(admin.record_times({("orders", 0): 2}), dict[TopicPartition, int])
    lags = admin.lag("billing")
    assert_type(lags, dict[TopicPartition, PartitionLag])
    return sum(partition.lag for partition in lags.values())


def many(admin: BlockingAdmin) -> None:
    created = admin.each.create_topics([NewTopic("a", 2), NewTopic("b", configs={"retention.ms": "1"})])
    assert_type(created, dict[str, Future[None]])
    assert_type(admin.each.describe_consumer_groups(["billing"])["billing"].result(), ConsumerGroupDescription)
    assert_type(admin.each.describe_configs(["a"])["a"].result(), dict[str, ConfigEntry])
    ends = admin.each.list_offsets({("a", 0): -1})
    assert_type(ends, dict[TopicPartition, Future[int]])
    assert_type(admin.each.create_partitions({"a": 4}), dict[str, Future[None]])
    assert_type(admin.each.incremental_alter_configs({"a": {"retention.ms": None}}), dict[str, Future[None]])
    moved = admin.each.alter_partition_reassignments({("a", 0): [1, 2]})
    assert_type(moved, dict[TopicPartition, Future[None]])
    assert_type(admin.each.delete_records({("a", 0): 1}), dict[TopicPartition, Future[int]])
    assert_type(admin.each.delete_topics(["a"]), dict[str, Future[None]])
    assert_type(admin.each.list_consumer_group_offsets(["billing"])["billing"].result(), dict[TopicPartition, int])
    assert_type(admin.each.alter_consumer_group_offsets("billing", {("a", 0): 1}), dict[TopicPartition, Future[None]])
    assert_type(admin.each.delete_consumer_group_offsets("billing", [("a", 0)]), dict[TopicPartition, Future[None]])
    assert_type(admin.each.remove_members_from_consumer_group("billing", ["worker-1"]), dict[str, Future[None]])
    assert_type(admin.each.delete_consumer_groups(["billing"]), dict[str, Future[None]])
    if (error := created["a"].exception()) is not None:
        print(error)


def main() -> None:
    with BlockingAdmin({"bootstrap.servers": "127.0.0.1:9092"}) as admin:
        assert_type(admin, BlockingAdmin)
        topics(admin)
        replicas(admin)
        groups(admin)
        many(admin)
    assert_type(admin.close(), None)
