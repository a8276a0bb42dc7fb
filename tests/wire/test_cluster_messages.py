"""Messages between brokers and their controller: bytes that Apache Kafka 2.6.3's own classes read and write alike."""

from __future__ import annotations

import pytest

from coterie.wire.apis import APIS, CLUSTER_APIS, advertised_versions
from coterie.wire.declaration import Message
from coterie.wire.messages.brokers.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from coterie.wire.messages.brokers.controlled_shutdown import RemainingPartition as Remaining
from coterie.wire.messages.brokers.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from coterie.wire.messages.brokers.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from coterie.wire.messages.brokers.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

GOLDEN: list[tuple[Message, int, str]] = [
    (
        LeaderAndIsrRequest(
            1,
            2,
            3,
            topic_states=[
                LeaderAndIsrTopicState(
                    "t", [LeaderAndIsrPartitionState("", 4, 5, 6, 7, [8], 9, [10, 11], [12], [13], True)]
                )
            ],
            live_leaders=[LeaderAndIsrLiveLeader(14, "h", 15)],
        ),
        4,
        "000000010000000200000000000000030202740200000004000000050000000600000007020000000800000009030000000a0000000b020000000c020000000d010000020000000e02680000000f0000",
    ),
    (
        LeaderAndIsrRequest(
            1,
            2,
            ungrouped_partition_states=[LeaderAndIsrPartitionState("t", 4, 5, 6, 7, [8], 9, [10, 11], is_new=True)],
            live_leaders=[LeaderAndIsrLiveLeader(14, "h", 15)],
        ),
        1,
        "00000001000000020000000100017400000004000000050000000600000007000000010000000800000009000000020000000a0000000b01000000010000000e0001680000000f",
    ),
    (
        StopReplicaRequest(1, 2, 3, topic_states=[StopReplicaTopicState("t", [StopReplicaPartitionState(4, 5, True)])]),
        3,
        "0000000100000002000000000000000302027402000000040000000501000000",
    ),
    (
        UpdateMetadataRequest(
            1,
            2,
            3,
            topic_states=[
                UpdateMetadataTopicState("t", [UpdateMetadataPartitionState("", 4, 5, 6, 7, [8], 9, [10], [11])])
            ],
            live_brokers=[UpdateMetadataBroker(12, endpoints=[UpdateMetadataEndpoint(13, "h", "L", 0)], rack="r")],
        ),
        6,
        "000000010000000200000000000000030202740200000004000000050000000600000007020000000800000009020000000a020000000b0000020000000c020000000d0268024c00000002720000",
    ),
    (ControlledShutdownRequest(1, 2), 3, "00000001000000000000000200"),
    (ControlledShutdownResponse(3, [Remaining("t", 4)]), 3, "0003020274000000040000"),
]


@pytest.mark.parametrize(("value", "version", "data"), GOLDEN, ids=lambda x: type(x).__name__)
def test_the_bytes_are_those_of_kafka_2_6(value: Message, version: int, data: str) -> None:
    assert value.encode(version).hex() == data
    assert type(value).decode(bytes.fromhex(data), version) == value


def test_a_broker_alone_does_not_advertise_them() -> None:
    alone = {row.api_key for row in advertised_versions()}
    assert not alone & set(CLUSTER_APIS)
    in_cluster = {row.api_key: (row.min_version, row.max_version) for row in advertised_versions(in_cluster=True)}
    assert set(in_cluster) == alone | set(CLUSTER_APIS)
    assert not set(APIS) & set(CLUSTER_APIS)
    assert [in_cluster[key] for key in (4, 5, 6, 7)] == [(0, 4), (0, 3), (0, 6), (1, 3)]
