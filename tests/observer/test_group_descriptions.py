"""What coordinators describe of share groups and streams groups, as a sight and as a kind."""

from __future__ import annotations

import pytest

from coterie.coordinator.journal.generations import owners_of
from coterie.observer.group_descriptions import share_group, streams_group
from coterie.observer.machine.sights import Described
from coterie.web.group_memory import kind_of
from coterie.wire.messages.groups.consumer_group_describe import Assignment, TopicPartitions
from coterie.wire.messages.share.share_group_describe import DescribedShareGroup, ShareMember
from coterie.wire.messages.streams.streams_group_describe import (
    DescribedStreamsGroup,
    DescribedSubtopology,
    DescribedTopology,
    StreamsMember,
    TaskAssignment,
)
from coterie.wire.messages.streams.streams_group_heartbeat import InternalTopic, TaskIds

COORDINATOR = (1, 7)


def owners(described: Described) -> dict[tuple[str, int], str]:
    owned = owners_of((m.member_id, m.assignment) for m in described.members)
    return {(tp[0], tp[1]): member_id for tp, member_id in owned.items()}


def test_a_share_group() -> None:
    assigned = Assignment([TopicPartitions(b"t" * 16, "orders", [0, 1])])
    member = ShareMember(
        member_id="m1",
        member_epoch=4,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["orders"],
        assignment=assigned,
    )
    group = DescribedShareGroup(
        group_id="queue",
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=4,
        assignor_name="simple",
        members=[member],
    )
    described = share_group(group, COORDINATOR)
    assert (described.group, described.state, described.protocol) == ("queue", "Stable", "simple")
    assert (described.protocol_type, described.epoch, described.coordinator) == ("share", 4, COORDINATOR)
    assert owners(described) == {("orders", 0): "m1", ("orders", 1): "m1"}


def streams_member(member_id: str, *tasks: TaskIds) -> StreamsMember:
    return StreamsMember(
        member_id=member_id,
        client_id="c",
        client_host="/h",
        process_id="p",
        assignment=TaskAssignment(list(tasks), [TaskIds("0", [2])], []),
        target_assignment=TaskAssignment([], [], []),
    )


def test_a_streams_group_owns_the_inputs_of_its_active_tasks() -> None:
    topology = DescribedTopology(
        1,
        [
            DescribedSubtopology("0", ["orders", "prices"], ["by-key"], [], []),
            DescribedSubtopology("1", [], [], [], [InternalTopic("by-key", 2, 1, [])]),
        ],
    )
    members = [streams_member("m1", TaskIds("0", [0]), TaskIds("1", [1])), streams_member("m2", TaskIds("0", [1]))]
    group = DescribedStreamsGroup(
        group_id="app",
        group_state="Reconciling",
        group_epoch=3,
        topology=topology,
        members=members,
        assignor_name="sticky",
    )
    described = streams_group(group, COORDINATOR)
    assert (described.protocol_type, described.protocol, described.epoch) == ("streams", "sticky", 3)
    assert owners(described) == {
        ("orders", 0): "m1",
        ("prices", 0): "m1",
        ("by-key", 1): "m1",
        ("orders", 1): "m2",
        ("prices", 1): "m2",
    }


def test_a_streams_group_without_a_topology() -> None:
    group = DescribedStreamsGroup(
        group_id="app", group_state="NotReady", members=[streams_member("m1", TaskIds("0", [0]))]
    )
    described = streams_group(group, COORDINATOR)
    assert (described.state, described.protocol, owners(described)) == ("NotReady", "", {})


@pytest.mark.parametrize(
    ("protocol_type", "is_consumer_protocol", "kind"),
    [
        ("consumer", False, "classic"),
        ("consumer", True, "consumer"),
        ("", True, "consumer"),
        ("", False, "simple"),
        ("connect", False, "connect"),
        ("share", True, "share"),
        ("streams", True, "streams"),
    ],
)
def test_the_kinds_of_the_console(protocol_type: str, is_consumer_protocol: bool, kind: str) -> None:
    assert kind_of(protocol_type, is_consumer_protocol=is_consumer_protocol) == kind
