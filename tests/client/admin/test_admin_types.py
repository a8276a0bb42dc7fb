"""The types that the admin returns: none of them is a message of the protocol, and none hides an Any."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import typing
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import coterie.client
from coterie.assignors.blobs import encode_assignment, encode_subscription
from coterie.client import (
    Admin,
    ConfigSource,
    GroupExplanation,
    GroupState,
    GroupType,
    KafkaError,
    MemberAssignment,
    Node,
    PartitionLag,
)
from coterie.client.admin.each import Each
from coterie.client.admin.group_explanation import group_explanation
from coterie.client.admin.results import cluster_description, config_entries, group_description, topic_descriptions
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.brokers.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribedGroupMember
from coterie.wire.messages.settings.describe_configs import DescribeConfigsResourceResult, DescribeConfigsResult
from coterie.wire.messages.topics.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tests.client.group import member, settled


def types_in(kind: Any, seen: set[Any]) -> Iterator[Any]:
    """Every type that a value of this one leads a program to: arguments of generics, and fields of dataclasses."""
    if kind in seen:
        return
    seen.add(kind)
    yield kind
    for argument in typing.get_args(kind):
        yield from types_in(argument, seen)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        for field in fields(kind):
            yield from types_in(hints[field.name], seen)


def public_methods(owner: type) -> list[Any]:
    return [value for name, value in vars(owner).items() if inspect.isfunction(value) and not name.startswith("_")]


@pytest.mark.parametrize("method", [*public_methods(Admin), *public_methods(Each)], ids=lambda m: m.__qualname__)
def test_a_method_leads_to_no_message_of_the_protocol_and_to_no_any(method: Any) -> None:
    hints = typing.get_type_hints(method)
    assert hints.keys() == {*inspect.signature(method).parameters, "return"} - {"self"}
    reached = set(types_in(hints["return"], set()))
    assert Any not in reached
    for kind in reached:
        module = getattr(kind, "__module__", "")
        assert not module.startswith("coterie.") or kind is ErrorCode or kind.__name__ in coterie.client.__all__, kind


@pytest.mark.parametrize("name", coterie.client.__all__)
def test_a_type_that_is_returned_cannot_be_changed(name: str) -> None:
    value = getattr(coterie.client, name)
    if is_dataclass(value):
        assert value.__dataclass_params__.frozen
        assert "__slots__" in vars(value)


def described(protocol_type: str, metadata: bytes, assignment: bytes, state: str = "Stable") -> Any:
    members = [DescribedGroupMember("m", None, "c", "/h", metadata, assignment)]
    return group_description(DescribedGroup(0, None, "g", state, protocol_type, "range", members), Node(1))


def test_the_subscription_and_the_assignment_of_a_consumer_are_decoded() -> None:
    metadata = encode_subscription({"a", "b"}, {"a": [1, 0]}, 7, "r1", b"mine")
    group = described("consumer", metadata, encode_assignment({"a": [0, 2], "b": [1]}))
    (one,) = group.members
    assert one.assignment.topic_partitions == {("a", 0), ("a", 2), ("b", 1)}
    assert one.subscription is not None
    assert asdict(one.subscription) == {
        "topics": {"a", "b"},
        "owned_partitions": {("a", 0), ("a", 1)},
        "generation": 7,
        "rack": "r1",
        "user_data": b"mine",
        "version": 3,
    }
    assert group.owners == dict.fromkeys(one.assignment.topic_partitions, one)


@pytest.mark.parametrize("protocol_type", ["connect", ""])
def test_the_bytes_of_another_protocol_type_stay_as_they_are(protocol_type: str) -> None:
    metadata, assignment = encode_subscription({"a"}), encode_assignment({"a": [0]})
    (one,) = described(protocol_type, metadata, assignment).members
    assert (one.subscription, one.assignment) == (None, MemberAssignment())
    assert (one.member_metadata, one.member_assignment) == (metadata, assignment)


@given(st.binary(), st.binary())
def test_bytes_that_are_no_subscription_or_assignment_describe_a_member_without(
    metadata: bytes, assignment: bytes
) -> None:
    (one,) = described("consumer", metadata, assignment).members
    assert (one.member_metadata, one.member_assignment) == (metadata, assignment)


def test_a_state_a_type_and_a_source_that_this_client_does_not_know() -> None:
    assert described("consumer", b"", b"", "Dreaming").state is GroupState.UNKNOWN
    assert described("consumer", b"", b"", "PreparingRebalance").state is GroupState.PREPARING_REBALANCE
    assert (GroupType("classic"), GroupType("Classic"), GroupType("")) == (
        GroupType.CLASSIC,
        GroupType.CLASSIC,
        GroupType.UNKNOWN,
    )
    assert ConfigSource(99) is ConfigSource.UNKNOWN


def test_brokers_that_are_not_named_and_partitions_without_a_leader() -> None:
    brokers = [DescribeClusterBroker(2, "h", 9092, "r"), DescribeClusterBroker(1, "i", 9093)]
    cluster = cluster_description(DescribeClusterResponse(cluster_id="c", controller_id=3, brokers=brokers))
    assert (cluster.controller, cluster.nodes) == (None, (Node(2, "h", 9092, "r"), Node(1, "i", 9093)))
    partitions = [MetadataResponsePartition(0, 1, -1, 4, [1, 9], [9]), MetadataResponsePartition(0, 0, 1, 5, [1], [1])]
    topics = [
        MetadataResponseTopic(0, "t", bytes(15) + b"\x01", True, partitions),
        MetadataResponseTopic(3, "none", bytes(16), False, []),
    ]
    response = MetadataResponse(brokers=[], topics=topics)
    described_topics = topic_descriptions(response)
    first, second = described_topics["t"].partitions
    assert (first.partition, first.leader, first.leader_epoch) == (0, None, 5)
    assert (second.leader, second.replicas, second.isr) == (None, (Node(1), Node(9)), (Node(9),))
    assert (described_topics["t"].topic_id, described_topics["t"].is_internal) == ("AAAAAAAAAAAAAAAAAAAAAQ", True)
    assert (described_topics["none"].topic_id, described_topics["none"].error) == (
        None,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )


@pytest.mark.parametrize(
    ("is_default", "source", "expected"),
    [(True, -1, "DEFAULT_CONFIG"), (False, -1, "DYNAMIC_TOPIC_CONFIG"), (False, 4, "STATIC_BROKER_CONFIG")],
)
def test_where_a_setting_comes_from_also_in_version_0(is_default: bool, source: int, expected: str) -> None:
    config = DescribeConfigsResourceResult("a", "1", False, is_default, source, False)
    entry = config_entries(DescribeConfigsResult(0, None, 2, "t", [config]))["a"]
    assert entry.source.name == expected
    assert entry.is_default is (expected == "DEFAULT_CONFIG")


def test_a_lag_is_never_negative() -> None:
    assert (PartitionLag(2, 5).lag, PartitionLag(5, 2).lag) == (3, 0)


# -- explanations ------------------------------------------------------------------------------------------------------


def explained(broker: LocalBroker) -> GroupExplanation:
    async def story() -> GroupExplanation:
        async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            consumer = await settled(member(broker), 2)
            explanation = await admin.explain_group("g")
            await consumer.close()
        return explanation

    broker.create_topic("t", 2)
    return asyncio.run(story())


def shapes(value: Any) -> Any:
    """A JSON document with each of its values taken away, or replaced by one of another type, in turn: (path, document)."""
    if isinstance(value, dict):
        for key in value:
            yield f".{key}", {k: v for k, v in value.items() if k != key}
            yield from ((f".{key}{path}", value | {key: changed}) for path, changed in shapes(value[key]))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from (
                (f"[{index}]{path}", [*value[:index], changed, *value[index + 1 :]]) for path, changed in shapes(item)
            )
        yield "", {}
    else:
        yield "", [value]


def lacks(document: Any, path: str) -> bool:
    """Whether the value at the path has been taken away."""
    *way, last = (int(step) if step.isdigit() else step for step in re.findall(r"\w+", path))
    for step in way:
        document = document[step]
    return last not in document


def test_every_value_that_is_missing_or_of_another_type_is_named(coterie_broker: LocalBroker) -> None:
    explanation = explained(coterie_broker)
    document = json.loads(json.dumps(asdict(explanation)))
    assert group_explanation(json.dumps(document).encode()) == explanation
    assert group_explanation(json.dumps(document | {"newer": 1}).encode()) == explanation
    # What an older broker lacks.
    since = "heartbeat_interval_ms lag_ms last_push_ms pushed unseen active standby warmup restoring owners"
    optional = tuple(f".{name}" for name in since.split())
    changed = [
        (path, other)
        for path, other in shapes(document)
        if not (path.endswith(optional) and lacks(other, path)) and "_phrase" not in path
    ]
    assert len(changed) > 80
    for path, other in changed:
        with pytest.raises(ValueError) as refused:
            group_explanation(json.dumps(other).encode())
        parent, _, last = path.rpartition(".")
        assert path in str(refused.value) or (parent in str(refused.value) and last in str(refused.value)), path


@pytest.mark.parametrize("document", [b"", b"nonsense", b"[]", b"null", b"\xff", b"{}", b"[" * 100_000])
def test_a_broker_that_explains_with_something_else(
    coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch, document: bytes
) -> None:
    async def story() -> None:
        async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
            await admin.alter_consumer_group_offsets("g", {("t", 0): 0})
            with pytest.raises(KafkaError, match="explanation of g cannot be read") as refused:
                await admin.explain_group("g")
            assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR
            assert len(await admin.lint_group("g")) == 5

    coterie_broker.create_topic("t")
    text = SimpleNamespace(encode=lambda: document)
    monkeypatch.setattr("coterie.broker.handlers.coordinators.groups.json", SimpleNamespace(dumps=lambda _: text))
    asyncio.run(story())


def test_the_states_are_kafkas() -> None:
    assert issubclass(GroupState, Enum)
    assert f"{GroupState.STABLE}" == json.loads(json.dumps(GroupState.STABLE)) == "Stable"
