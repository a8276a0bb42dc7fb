"""What the error of a partition in a Fetch response calls for (Kafka's FetchCollector.handleInitializeErrors)."""

from __future__ import annotations

from enum import Enum

from coterie.consuming.record import TopicPartition
from coterie.machines.cluster_metadata import NO_NODE, Address
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.fetch import FetchResponse


class FetchRemedy(Enum):
    """What a partition's error calls for."""

    FIND_LEADER = "fetch again after a pause, from the leader that new metadata names"
    RETRY = "fetch again after a pause"
    RESET = "the position is reset by auto.offset.reset"
    REPORT = "poll raises the error; each further poll tries again"


_E = ErrorCode
REMEDIES: dict[ErrorCode, FetchRemedy] = {
    _E.NOT_LEADER_OR_FOLLOWER: FetchRemedy.FIND_LEADER,
    _E.REPLICA_NOT_AVAILABLE: FetchRemedy.FIND_LEADER,
    _E.KAFKA_STORAGE_ERROR: FetchRemedy.FIND_LEADER,
    _E.FENCED_LEADER_EPOCH: FetchRemedy.FIND_LEADER,
    _E.OFFSET_NOT_AVAILABLE: FetchRemedy.FIND_LEADER,
    _E.UNKNOWN_TOPIC_OR_PARTITION: FetchRemedy.FIND_LEADER,
    _E.UNKNOWN_TOPIC_ID: FetchRemedy.FIND_LEADER,
    _E.INCONSISTENT_TOPIC_ID: FetchRemedy.FIND_LEADER,
    _E.UNKNOWN_LEADER_EPOCH: FetchRemedy.FIND_LEADER,  # Kafka retries: its metadata has an age, and topics are created again
    _E.UNKNOWN_SERVER_ERROR: FetchRemedy.RETRY,
    _E.OFFSET_OUT_OF_RANGE: FetchRemedy.RESET,
    _E.TOPIC_AUTHORIZATION_FAILED: FetchRemedy.REPORT,
    _E.CORRUPT_MESSAGE: FetchRemedy.REPORT,
}


def remedy(code: ErrorCode) -> FetchRemedy:
    """What the code calls for. One without a row, which Kafka's brokers do not return here: FIND_LEADER where retriable."""
    return REMEDIES.get(code) or (FetchRemedy.FIND_LEADER if code.retriable else FetchRemedy.REPORT)


_MOVED = frozenset({_E.NOT_LEADER_OR_FOLLOWER, _E.FENCED_LEADER_EPOCH})


def named_leaders(response: FetchResponse) -> tuple[dict[TopicPartition, tuple[int, int]], dict[int, Address]]:
    """The leaders that a broker names in place of itself, with their epochs, and the addresses of brokers (KIP-951): from
    version 16 on (AbstractFetch.handleFetchSuccess)."""
    leaders: dict[TopicPartition, tuple[int, int]] = {}
    for topic in response.responses:
        for data in topic.partitions:
            if data.error_code in _MOVED:
                leader = data.current_leader
                if NO_NODE not in (leader.leader_id, leader.leader_epoch):
                    where = TopicPartition(topic.topic, data.partition_index)
                    leaders[where] = leader.leader_id, leader.leader_epoch
    return leaders, {node.node_id: (node.host, node.port) for node in response.node_endpoints}
