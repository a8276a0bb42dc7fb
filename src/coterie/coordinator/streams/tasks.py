"""Tasks of a topology, and what its assignors and its configuration are given and return (Kafka's TaskAssignor and
InternalTopicManager). A task is a subtopology with a partition of its input; its active copy processes, standbys follow it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field

from coterie.machines.values import value

TaskId = tuple[str, int]  # (subtopology id, partition), "1_3" in Kafka's logs


@value
class Tasks:
    """The tasks of a member by their roles. A warm-up task restores, so that the member may have it active later."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    warmup: frozenset[TaskId] = frozenset()


NO_TASKS = Tasks()


@dataclass(frozen=True, slots=True)
class TaskMember:
    """A member as a task assignor sees it: what it has now, and how far it has restored each task, by offset and end offset.
    Members of one process share its disk."""

    process_id: str
    tasks: Tasks = NO_TASKS
    client_tags: Mapping[str, str] = field(default_factory=dict)
    instance_id: str | None = None
    rack_id: str | None = None
    offsets: Mapping[TaskId, int] = field(default_factory=dict)
    end_offsets: Mapping[TaskId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AssignableSubtopology:
    """How many tasks a subtopology has, and whether they have state, which alone has standbys."""

    task_count: int
    is_stateful: bool


@dataclass(frozen=True, slots=True)
class TaskAssignmentConfig:
    """Settings of a task assignor: standbys of a task, and the client tags over which they are spread (KIP-1357)."""

    standby_replicas: int = 0
    rack_aware_tags: tuple[str, ...] = ()


Members = Mapping[str, TaskMember]  # by member id
Subtopologies = Mapping[str, AssignableSubtopology]  # by id, in order
TaskAssignor = Callable[[Members, Subtopologies, TaskAssignmentConfig], dict[str, Tasks]]


@value
class ConfiguredInternalTopic:
    """A repartition or changelog topic with its number of partitions; 0 replicas: the broker's default."""

    name: str
    partitions: int
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology over the topics that exist: as many tasks as the largest of its inputs has partitions."""

    task_count: int
    source_topics: Set[str]
    repartition_sources: Mapping[str, ConfiguredInternalTopic]
    repartition_sinks: Set[str]
    changelogs: Mapping[str, ConfiguredInternalTopic]


@value
class TopologyProblem:
    """Why members get no tasks: a status of the heartbeat's response (1 missing source topics, 2 incorrectly partitioned
    topics, 3 missing internal topics) with its text."""

    status_code: int
    detail: str


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology over the topics that exist: its subtopologies by id, in order, None where they cannot be configured; the
    internal topics to create; and what is wrong."""

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    missing: tuple[ConfiguredInternalTopic, ...] = ()
    problem: TopologyProblem | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None
