"""The admin's view of replicas: topics with replicas, elections and reassignments, of one broker and of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.client import KafkaError, NewTopic, PartitionReassignment
from coterie.client.admin.results import partition_reassignments
from coterie.client.blocking import BlockingAdmin
from coterie.testing import ErrorCode, LocalBroker
from coterie.wire.messages.topics.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tests.awaiting import until_in_thread

ORDERS = ("orders", 0)


@pytest.fixture
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker(brokers=3) as brokers:
        yield brokers


def admin_of(broker: LocalBroker) -> BlockingAdmin:
    return BlockingAdmin({"bootstrap.servers": broker.bootstrap_servers})


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


# -- one broker ---------------------------------------------------------------------------------------------------------


def test_one_broker_has_nothing_to_elect_and_nothing_to_move(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("orders", 1)
    with admin_of(coterie_broker) as admin:
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for unclean in (False, True):
            elected = admin.elect_leaders([ORDERS, ("none", 0)], unclean=unclean)
            assert elected == {ORDERS: ErrorCode.ELECTION_NOT_NEEDED, ("none", 0): unknown}
        assert admin.elect_leaders() == {}
        admin.alter_partition_reassignments({ORDERS: [1]})
        assert admin.list_partition_reassignments() == admin.list_partition_reassignments([ORDERS]) == {}
        with pytest.raises(KafkaError, match="broker 7 is not registered"):
            admin.alter_partition_reassignments({ORDERS: [7]})
        with pytest.raises(KafkaError) as none:
            admin.alter_partition_reassignments({ORDERS: None})
        assert code_of(none) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_topic_with_assignments_on_one_broker(coterie_broker: LocalBroker) -> None:
    with admin_of(coterie_broker) as admin:
        admin.create_topic("assigned", assignments={0: [1], 1: [1]})
        assert len(admin.partitions(["assigned"])) == 2
        with pytest.raises(KafkaError) as absent:
            admin.create_topic("elsewhere", assignments={0: [9]})
        assert code_of(absent) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        with pytest.raises(KafkaError) as many:
            admin.create_topic("many", 1, replication_factor=3)
        assert code_of(many) == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("topic", "error", "text"),
    [
        (NewTopic("t", 2, assignments={0: [1]}), ValueError, "either assignments or partitions"),
        (NewTopic("t", replication_factor=1, assignments={0: [1]}), ValueError, "either assignments or partitions"),
        (NewTopic("t", assignments={1: [1]}), ValueError, r"from 0 on without a gap, not \[1\]"),
        (NewTopic("t", assignments={0: []}), ValueError, "at least one broker"),
        (NewTopic("t", assignments={0: "1"}), TypeError, "must be a list of broker ids"),  # type: ignore[dict-item]
        (NewTopic("t", assignments=[[1]]), TypeError, "must map each partition's number"),  # type: ignore[arg-type]
    ],
)
def test_a_slip_in_assignments(coterie_broker: LocalBroker, topic: NewTopic, error: type[Exception], text: str) -> None:
    with admin_of(coterie_broker) as admin, pytest.raises(error, match=text):
        admin.each.create_topics([topic])


def test_a_slip_in_a_reassignment_is_an_error_of_the_call(coterie_broker: LocalBroker) -> None:
    with admin_of(coterie_broker) as admin:
        with pytest.raises(ValueError, match="at least one broker"):
            admin.alter_partition_reassignments({ORDERS: []})
        with pytest.raises(TypeError, match="tuple"):
            admin.elect_leaders(["orders"])  # type: ignore[list-item]


# -- a cluster ----------------------------------------------------------------------------------------------------------


def test_replicas_are_described_where_a_broker_is_gone(cluster: LocalBroker) -> None:
    """testUnderReplicatedPartitionsCorrectSemantics: as long as one replica is not in the ISR."""
    with admin_of(cluster) as admin:
        admin.create_topic("orders", 3, replication_factor=2)
        (one, *_) = admin.describe_topics(["orders"])["orders"].partitions
        assert (len(one.replicas), one.is_under_replicated, one.offline_replicas) == (2, False, ())
        admin.create_topic("assigned", assignments={0: [3, 1, 2]})
        cluster.leader_of("assigned")
        cluster.kill(3)

        def is_described() -> bool:
            (partition,) = admin.describe_topics(["assigned"])["assigned"].partitions
            return [node.id for node in partition.offline_replicas] == [3] and partition.is_under_replicated

        until_in_thread(is_described, lambda: str(admin.describe_topics(["assigned"])))
        (partition,) = admin.describe_topics(["assigned"])["assigned"].partitions
        assert [node.id for node in partition.replicas] == [3, 1, 2]
        assert partition.leader is not None
        assert (partition.leader.id, {node.id for node in partition.isr}, partition.leader_epoch) == (1, {1, 2}, 1)


def test_the_preferred_leader_is_elected_in_a_cluster(cluster: LocalBroker) -> None:
    with admin_of(cluster) as admin:
        admin.create_topic("orders", assignments={0: [2, 1], 1: [1, 2]})
        cluster.leader_of("orders")
        cluster.stop(2)
        assert cluster.leader_of("orders") == 1
        cluster.restart(2)
        until_in_thread(lambda: cluster.in_sync("orders") == {1, 2}, lambda: str(cluster.in_sync("orders")))
        until_in_thread(lambda: admin.elect_leaders().get(ORDERS) == ErrorCode.NONE, lambda: "no election")
        until_in_thread(lambda: cluster.leader_of("orders") == 2, lambda: str(cluster.leader_of("orders")))
        assert admin.elect_leaders([("orders", 1)]) == {("orders", 1): ErrorCode.ELECTION_NOT_NEEDED}


def test_an_unclean_election_brings_a_leader(cluster: LocalBroker) -> None:
    with admin_of(cluster) as admin:
        admin.create_topic("orders", assignments={0: [2, 3]})
        cluster.leader_of("orders")
        cluster.shrink_isr("orders", 0, to=[2])
        cluster.kill(2)

        def has_no_leader() -> bool:
            (partition,) = admin.describe_topics(["orders"])["orders"].partitions
            return partition.leader is None

        until_in_thread(has_no_leader, lambda: "there is a leader")
        assert admin.elect_leaders([ORDERS]) == {ORDERS: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
        assert admin.elect_leaders([ORDERS], unclean=True) == {ORDERS: ErrorCode.NONE}
        assert cluster.leader_of("orders") == 3


def test_partitions_move_to_other_brokers(cluster: LocalBroker) -> None:
    with admin_of(cluster) as admin:
        admin.create_topic("orders", assignments={0: [1], 1: [1]})
        cluster.leader_of("orders")
        cluster.produce("orders", b"one", partition=0)
        futures = admin.each.alter_partition_reassignments({ORDERS: [3, 2], ("orders", 1): [9], ("none", 0): [1]})
        futures[ORDERS].result()
        invalid = futures["orders", 1].exception(), futures["none", 0].exception()
        codes = [error.code for error in invalid if isinstance(error, KafkaError)]
        assert codes == [ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        until_in_thread(lambda: not admin.list_partition_reassignments(), lambda: "the reassignment goes on")
        until_in_thread(lambda: cluster.in_sync("orders") == {3, 2}, lambda: str(cluster.in_sync("orders")))
        assert cluster.leader_of("orders") == 3


def test_a_reassignment_is_listed_and_cancelled(cluster: LocalBroker) -> None:
    """The added replica cannot reach its leader."""
    with admin_of(cluster) as admin:
        admin.create_topic("cut-off", assignments={0: [1, 3]})
        admin.create_topic("orders", assignments={0: [1]})
        cluster.leader_of("orders")
        cluster.shrink_isr("cut-off", 0, to=[1])
        admin.alter_partition_reassignments({ORDERS: [3]})
        listed = PartitionReassignment((3, 1), (3,), (1,))
        assert admin.list_partition_reassignments([ORDERS]) == admin.list_partition_reassignments() == {ORDERS: listed}
        admin.alter_partition_reassignments({ORDERS: None})
        assert admin.list_partition_reassignments() == {}


def test_reassignments_are_listed_by_partition() -> None:
    rows = [OngoingPartitionReassignment(number, [1, 2], [2], [1]) for number in (1, 0)]
    listed = partition_reassignments(ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment("t", rows)]))
    assert listed == dict.fromkeys([("t", 0), ("t", 1)], PartitionReassignment((1, 2), (2,), (1,)))
    assert list(listed) == [("t", 0), ("t", 1)]
