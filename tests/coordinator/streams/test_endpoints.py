"""Partitions of an endpoint; Kafka 4.4's EndpointToPartitionsManagerTest by name."""

from __future__ import annotations

import pytest

from coterie.coordinator.streams.response import endpoint_partitions
from coterie.coordinator.streams.tasks import ConfiguredInternalTopic, ConfiguredSubtopology, Tasks
from coterie.wire.errors import Refusal
from coterie.wire.messages.streams.streams_group_heartbeat import Endpoint
from tests.coordinator.streams.topologies import image

HERE = Endpoint("localhost", 9092)
SEPARATE = {
    "0": ConfiguredSubtopology(1, {"a"}, {}, set(), {}),
    "1": ConfiguredSubtopology(1, set(), {"b": ConfiguredInternalTopic("b", 1)}, set(), {}),
}
JOINED = {"0": ConfiguredSubtopology(5, {"a", "b"}, {}, set(), {})}


def tasks(active: str = "", standby: str = "", warmup: str = "") -> Tasks:
    """`0_1 0_2` are two tasks of subtopology 0."""
    roles = [
        frozenset((t.split("_")[0], int(t.split("_")[1])) for t in text.split()) for text in (active, standby, warmup)
    ]
    return Tasks(*roles)


@pytest.mark.parametrize(
    ("subtopologies", "counts", "owned", "active", "standby"),
    [
        pytest.param(
            SEPARATE,
            (3, 3),
            tasks("0_0 0_1 0_2", "1_0 1_1 1_2"),
            {"a": [0, 1, 2]},
            {"b": [0, 1, 2]},
            id="testEndpointToPartitionsWithStandbyTaskAssignments",
        ),
        pytest.param(
            SEPARATE,
            (3, 3),
            tasks("0_0 0_1 0_2", "1_0", "1_1 1_2"),
            {"a": [0, 1, 2]},
            {"b": [0, 1, 2]},
            id="testEndpointToPartitionsWithStandbyAndWarmupTasksInSameSubtopology",
        ),
        pytest.param(
            JOINED,
            (5, 2),
            tasks("0_1 0_3", "0_4"),
            {"a": [1, 3], "b": [1]},
            {"a": [4]},
            id="testEndpointToPartitionsExcludesPartitionsMissingFromSmallerSourceTopic",
        ),
        pytest.param(
            JOINED,
            (2, 5),
            tasks("0_0 0_1 0_2 0_3 0_4"),
            {"a": [0, 1], "b": [0, 1, 2, 3, 4]},
            {},
            id="testEndpointToPartitionsWithTwoTopicsAndDifferentPartitions",
        ),
    ],
)
def test_partitions_of_an_endpoint(
    subtopologies: dict[str, ConfiguredSubtopology],
    counts: tuple[int, int],
    owned: Tasks,
    active: dict[str, list[int]],
    standby: dict[str, list[int]],
) -> None:
    served = endpoint_partitions(HERE, owned, subtopologies, image(dict(zip("ab", counts, strict=True))))
    assert served.user_endpoint == HERE
    assert {t.topic: t.partitions for t in served.active_partitions} == active
    assert {t.topic: t.partitions for t in served.standby_partitions} == standby


def test_a_deleted_source_topic() -> None:
    with pytest.raises(Refusal, match="Topic a not found in metadata image"):
        endpoint_partitions(HERE, tasks("0_0"), JOINED, image({"b": 1}))
