"""The nodes of a cluster as Kafka 2.6.3 writes them, and hostile ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.controller import nodes
from coterie.replication.states import PartitionState
from coterie.zookeeper.operations import Corrupt, Znode

STATE = '{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":7,"isr":[2,3]}'
JUNK = st.sampled_from(["", "{}", "[]", "null", "7", '{"partitions":7}', '{"partitions":[7]}', '{"isr":{}}', "[" * 900])


def test_a_partition_state() -> None:
    state = nodes.state_of(Znode(STATE, version=5), (2, 3, 1))
    assert state == PartitionState(2, 7, (2, 3), 4, 5, (2, 3, 1))
    assert nodes.state(state) == STATE


def test_a_topic() -> None:
    text = '{"version":2,"partitions":{"0":[1,2],"1":[2,3]},"adding_replicas":{},"removing_replicas":{}}'
    assert nodes.topic({1: [2, 3], 0: [1, 2]}) == text
    assert nodes.replicas_of(text) == {0: (1, 2), 1: (2, 3)}


def test_an_isr_change() -> None:
    text = '{"version":1,"partitions":[{"topic":"a","partition":0},{"topic":"b","partition":3}]}'
    assert nodes.partitions({("b", 3), ("a", 0)}) == text
    assert nodes.partitions_of(text) == [("a", 0), ("b", 3)]


def test_reassigned_partitions() -> None:
    """testEncode and testDecodeValidJson of ReassignPartitionsZNodeTest."""
    targets = {("foo", 0): (1, 2)}
    text = '{"version":1,"partitions":[{"topic":"foo","partition":0,"replicas":[1,2]}]}'
    assert nodes.reassigned(targets) == text
    assert nodes.reassigned_of(text) == targets


@pytest.mark.parametrize("text", ["invalid json", "{}", '{"partitions":[{"topic":"foo","partition":0}]}'])
def test_reassigned_partitions_of_invalid_json(text: str) -> None:
    """testDecodeInvalidJson; the controller deletes such a node: tests/spec/cluster/reassignment.txt."""
    with pytest.raises(Corrupt, match="/admin/reassign_partitions holds"):
        nodes.reassigned_of(text)


def test_a_controller_and_a_broker() -> None:
    assert nodes.controller(3, 1_700_000_000_000) == '{"version":1,"brokerid":3,"timestamp":"1700000000000"}'
    assert nodes.broker("h", 9092, "r1", 17) == (
        '{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h:9092"],"jmx_port":-1,'
        '"host":"h","timestamp":"17","port":9092,"version":4,"rack":"r1"}'
    )


@given(st.one_of(JUNK, st.text(max_size=40)))
def test_junk_is_corrupt(text: str) -> None:
    for read in (nodes.replicas_of, nodes.partitions_of, lambda t: nodes.state_of(Znode(t), ())):
        try:
            read(text)
        except Corrupt:
            continue
        assert text == "{}" or '"partitions"' in text or "isr" in text


def test_junk_says_what_it_is() -> None:
    with pytest.raises(Corrupt, match="a partition's state holds '7'"):
        nodes.state_of(Znode("7"), ())
