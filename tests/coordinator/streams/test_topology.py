"""The configuration of topologies; Kafka 4.4's InternalTopicManagerTest, RepartitionTopicsTest, ChangelogTopicsTest,
CopartitionedTopicsEnforcerTest, ConfiguredTopologyTest and TopicConfigurationExceptionTest by name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from coterie.coordinator.streams.tasks import ConfiguredInternalTopic, ConfiguredSubtopology, ConfiguredTopology
from coterie.coordinator.streams.topology import (
    TopicsDiffer,
    check_topology,
    configure_topology,
    copartitioned,
    required_topics,
)
from coterie.wire.errors import ErrorCode, Refusal
from coterie.wire.messages.streams.streams_group_heartbeat import Subtopology, Topology
from tests.coordinator.streams.topologies import image, subtopology, topology

# InternalTopicManagerTest's: a subtopology that writes a repartition topic, and one that joins it with a source.
TWO = topology(
    subtopology("subtopology1", "source_topic1", "repartition_topic", changelogs="log1:0:0:cleanup.policy=compact"),
    subtopology(
        "subtopology2", "source_topic2", repartition="repartition_topic:0:3", changelogs="log2", together=[([0], [0])]
    ),
)


def problem_of(configured: ConfiguredTopology) -> tuple[int, str]:
    assert configured.problem is not None
    assert not configured.is_ready
    return configured.problem.status_code, configured.problem.detail


def subtopologies_of(configured: ConfiguredTopology) -> Mapping[str, ConfiguredSubtopology]:
    assert configured.subtopologies is not None
    return configured.subtopologies


def repartition_counts(configured: ConfiguredTopology) -> dict[str, int]:
    sources = [s.repartition_sources for s in subtopologies_of(configured).values()]
    return {name: topic.partitions for topics in sources for name, topic in topics.items()}


def test_a_missing_source_topic() -> None:
    """testConfigureTopicsSetsConfigurationExceptionWhenSourceTopicIsMissing, testMissingSourceTopics."""
    configured = configure_topology(TWO, image({"source_topic1": 2}))
    assert configured.subtopologies is None
    assert problem_of(configured) == (1, "Source topics source_topic2 are missing.")


def test_missing_source_topics_are_counted_from_the_fourth() -> None:
    configured = configure_topology(topology(subtopology("0", "e d c b a")), image({}))
    assert problem_of(configured) == (1, "Source topics a, b, c and 2 additional topics are missing.")


def test_internal_topics_are_configured() -> None:
    """testConfigureTopics, testMissingInternalTopics."""
    configured = configure_topology(TWO, image({"source_topic1": 2, "source_topic2": 2, "log2": 2}))
    log1 = ConfiguredInternalTopic("log1", 2, 0, (("cleanup.policy", "compact"),))
    repartition, log2 = ConfiguredInternalTopic("repartition_topic", 2, 3), ConfiguredInternalTopic("log2", 2)
    assert sorted(configured.missing, key=lambda topic: topic.name) == [log1, repartition]
    assert subtopologies_of(configured) == {
        "subtopology1": ConfiguredSubtopology(2, {"source_topic1"}, {}, {"repartition_topic"}, {"log1": log1}),
        "subtopology2": ConfiguredSubtopology(
            2, {"source_topic2"}, {repartition.name: repartition}, set(), {"log2": log2}
        ),
    }
    names = ", ".join(topic.name for topic in configured.missing)
    assert problem_of(configured) == (3, f"Internal topics are missing: {names}")


def test_a_topology_is_ready_once_its_internal_topics_exist() -> None:
    """testIsReady of ConfiguredTopologyTest."""
    everything = dict.fromkeys(required_topics(TWO), 2)
    configured = configure_topology(TWO, image(everything))
    assert configured.is_ready
    assert configured.epoch == 3
    assert not configured.missing
    assert not configure_topology(TWO, image({})).is_ready


def test_an_internal_topic_with_other_partitions() -> None:
    """testIncorrectlyPartitionedTopics."""
    everything = dict.fromkeys(required_topics(TWO), 2) | {"log1": 5}
    text = "Existing topic log1 has different number of partitions: expected 2, found 5"
    assert problem_of(configure_topology(TWO, image(everything))) == (2, text)


def test_required_topics() -> None:
    """requiredTopicsShouldBeCorrect."""
    assert required_topics(TWO) == {"source_topic1", "source_topic2", "repartition_topic", "log1", "log2"}


SOURCES = {"source1": 3, "source2": 3}


@pytest.mark.parametrize(
    ("subtopologies", "expected"),
    [
        pytest.param(
            [subtopology("1", "source1 source2", "r1"), subtopology("2", repartition="r1:4")],
            {"r1": 4},
            id="shouldSetupRepartitionTopics",
        ),
        pytest.param(
            [subtopology("0", "source1", "r1 r", "r2:2"), subtopology("1", repartition="r1:4 r")],
            {"r1": 4, "r2": 2, "r": 3},
            id="shouldSetRepartitionTopicPartitionCountFromUpstreamExternalSourceTopic",
        ),
        pytest.param(
            [subtopology("0", "source1", "r", "r1:4"), subtopology("1", sinks="r1", repartition="r")],
            {"r1": 4, "r": 4},
            id="shouldSetRepartitionTopicPartitionCountFromUpstreamInternalRepartitionSourceTopic",
        ),
        pytest.param(
            [subtopology("0", "source1")],
            {},
            id="shouldNotSetupRepartitionTopicsWhenTopologyDoesNotContainAnyRepartitionTopics",
        ),
    ],
)
def test_repartition_topics(subtopologies: list[Subtopology], expected: dict[str, int]) -> None:
    assert repartition_counts(configure_topology(topology(*subtopologies), image(SOURCES))) == expected


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        pytest.param(
            subtopology("1", sinks="r", repartition="r"),
            "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot "
            "be resolved.",
            id="shouldThrowStreamsInvalidTopologyExceptionIfPartitionCountCannotBeComputedForAllRepartitionTopicsDueToLoops",
        ),
        pytest.param(
            subtopology("1", repartition="r"),
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is never "
            "used as a sink topic.",
            id="shouldThrowStreamsInvalidTopologyExceptionIfPartitionCountCannotBeComputedForAllRepartitionTopicsDueToMissingSinks",
        ),
        pytest.param(
            subtopology("1", changelogs="log"),
            "No source topics found for subtopology 1",
            id="shouldFailIfNoSourceTopicsAndNoRepartitionSourceTopics",
        ),
    ],
)
def test_a_topology_that_fits_no_topics(invalid: Subtopology, message: str) -> None:
    with pytest.raises(Refusal, match=message) as refused:
        configure_topology(topology(invalid), image(SOURCES))
    assert refused.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(subtopology("0", repartition="r:3"), {}, id="shouldNotFailIfOnlySourceTopicsEmpty"),
        pytest.param(subtopology("0", sources="source1"), {}, id="shouldNotFailIfOnlyRepartitionSourceTopicsEmpty"),
        pytest.param(
            subtopology("0", sources="source1", repartition="r:3"), {}, id="shouldNotContainChangelogsForStatelessTasks"
        ),
        pytest.param(
            subtopology("0", sources="source1", changelogs="log"),
            {"log": 3},
            id="shouldContainNonSourceBasedChangelogs",
        ),
        pytest.param(
            subtopology("0", sources="source1", changelogs="source1"),
            {"source1": 3},
            id="shouldContainSourceBasedChangelogs",
        ),
        pytest.param(
            subtopology("0", sources="source1", changelogs="source1 log"),
            {"source1": 3, "log": 3},
            id="shouldContainBothTypesOfPreExistingChangelogs",
        ),
    ],
)
def test_changelog_topics(wanted: Subtopology, expected: dict[str, int]) -> None:
    configured = subtopologies_of(configure_topology(topology(wanted), image(SOURCES)))
    assert {name: topic.partitions for name, topic in configured["0"].changelogs.items()} == expected


@pytest.mark.parametrize(
    ("counts", "fixed", "flexible", "expected"),
    [
        pytest.param(
            {"s1": 2, "s2": 2, "r1": 10}, "", "r1", {"r1": 2}, id="shouldEnforceCopartitioningOnRepartitionTopics"
        ),
        pytest.param(
            {"r1": 1, "r2": 15, "r3": 5},
            "",
            "r1 r2 r3",
            {"r1": 15, "r2": 15, "r3": 15},
            id="shouldSetNumPartitionsToMaximumPartitionsWhenAllTopicsAreRepartitionTopics",
        ),
        pytest.param(
            {"r1": 10, "r2": 10},
            "",
            "r1 r2",
            {"r1": 10, "r2": 10},
            id="shouldReturnThePartitionCountsUnchangedWhenTopicInfosWithEnforcedNumOfPartitionsAreValid",
        ),
        pytest.param(
            {"r1": 2, "s1": 2},
            "",
            "r1",
            {"r1": 2},
            id="shouldReturnThePartitionCountsUnchangedWhenNumberOfPartitionsOfNonRepartitionTopicAndRepartitionTopicWithEnforcedNumOfPartitionsMatch",
        ),
        pytest.param(
            {"r1": 2, "r2": 5, "r3": 2},
            "r1 r3",
            "r2",
            {"r1": 2, "r2": 2, "r3": 2},
            id="shouldDeductNumberOfPartitionsFromRepartitionTopicWithEnforcedNumberOfPartitions",
        ),
        pytest.param({}, "", "", {}, id="no topics"),
    ],
)
def test_copartitioned_topics(counts: dict[str, int], fixed: str, flexible: str, expected: dict[str, int]) -> None:
    assert copartitioned(counts, frozenset(fixed.split()), frozenset(flexible.split()), counts.__getitem__) == expected


@pytest.mark.parametrize(
    ("counts", "fixed", "text"),
    [
        pytest.param(
            {"s1": 2, "s2": 1},
            "",
            "Following topics do not have the same number of partitions: [{s1=2, s2=1}]",
            id="shouldThrowTopicConfigurationExceptionIfPartitionCountsForCoPartitionedTopicsDontMatch",
        ),
        pytest.param(
            {"r1": 10, "r2": 5},
            "r1 r2",
            "Following topics do not have the same number of partitions: [{r1=10, r2=5}]",
            id="shouldThrowAnExceptionIfTopicInfosWithEnforcedNumOfPartitionsHaveDifferentNumOfPartitions",
        ),
        pytest.param(
            {"r1": 10, "s1": 2},
            "r1",
            "Number of partitions [10] of repartition topic [r1] doesn't match number of partitions [2] of the source topic.",
            id="shouldThrowAnExceptionWhenNumberOfPartitionsOfNonRepartitionTopicAndRepartitionTopicWithEnforcedNumOfPartitionsDoNotMatch",
        ),
    ],
)
def test_copartitioned_topics_that_differ(counts: dict[str, int], fixed: str, text: str) -> None:
    with pytest.raises(TopicsDiffer) as difference:
        copartitioned(counts, frozenset(fixed.split()), frozenset(), counts.__getitem__)
    assert str(difference.value) == text


def test_copartitioned_sources_that_differ_are_a_status() -> None:
    joined = topology(subtopology("0", "source1 source2", together=[([0, 1], [])]))
    text = "Following topics do not have the same number of partitions: [{source1=3, source2=4}]"
    assert problem_of(configure_topology(joined, image({"source1": 3, "source2": 4}))) == (2, text)


def test_a_repartition_topic_has_at_least_one_partition() -> None:
    """testConstructorWithZeroPartitions."""
    with pytest.raises(Refusal, match="Number of partitions must be at least 1"):
        configure_topology(topology(subtopology("0", "source1", repartition="r:-1")), image(SOURCES))


@pytest.mark.parametrize("index", [1, -1])
def test_a_copartition_group_of_a_topic_that_the_subtopology_lacks(index: int) -> None:
    with pytest.raises(Refusal) as refused:
        configure_topology(topology(subtopology("0", "source1", together=[([index], [])])), image(SOURCES))
    assert refused.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_source_topics_by_regular_expression_are_refused() -> None:
    by_regex = subtopology("0", "source1")
    by_regex.source_topic_regex.append("source.*")
    with pytest.raises(Refusal, match="Regular expressions for source topics are not supported yet") as refused:
        check_topology(Topology(0, [by_regex]))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_changelog_topic_has_no_number_of_its_own() -> None:
    text = "Changelog topic log must have an undefined partition count, but it is set to 2."
    with pytest.raises(Refusal, match=text) as refused:
        check_topology(Topology(0, [subtopology("0", "source1", changelogs="log:2")]))
    assert refused.value.code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    check_topology(Topology(0, [subtopology("0", "source1", changelogs="log")]))
