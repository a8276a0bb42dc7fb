"""What the commands of groups print with `--json` of groups, members and partitions; see `json_documents`."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from coterie.text.phrase import Phrase


class GroupRow(TypedDict):
    """A group. ``state`` is Kafka's name of its state; ``type`` "Classic", "Consumer" (KIP-848), "Share" or "Streams",
    "Unknown" of a broker that does not report it; ``protocol_type`` is "consumer" for consumers, "connect" for Connect,
    "zookeeper" for a group in ZooKeeper, and "" for a group that only committed offsets; ``protocol`` the assignor, ""
    while there is none; ``coordinator`` the id of its broker. ``lag_ms`` is the longest of its partitions: how long ago the
    first record that is not committed was written. What could not be read is null, and ``error`` says why."""

    group: str
    state: str
    type: str
    protocol_type: str
    protocol: str | None
    coordinator: int | None
    members: int | None
    lag: int | None
    lag_ms: int | None
    error: NotRequired[str]


class DescribedMember(TypedDict):
    """A member; ``partitions`` is the number that it owns. Only of the newer protocols (KIP-848): the member epoch, and the
    number of partitions that it shall own; of a streams group (KIP-1071) also its process and its tasks by Kafka's names (1_3),
    by role: active, standby and warmup."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    partitions: int
    member_epoch: NotRequired[int]
    target_partitions: NotRequired[int]
    process_id: NotRequired[str]
    tasks: NotRequired[dict[str, list[str]]]


class ZooKeeperMember(TypedDict):
    """A consumer of a group in ZooKeeper: ``threads`` maps a topic to its number of streams."""

    member_id: str
    threads: dict[str, int]
    partitions: int


class DescribedPartition(TypedDict):
    """A partition with an owner or a committed offset: ``end`` is the end of its log, ``lag_ms`` how long ago the first record
    that is not committed was written (0: there is none), ``owner`` a member id (in ZooKeeper: of a thread), ``host`` the
    owner's address. Of a share group ``committed`` is the start offset, before which every record has ended, ``lag`` counts the
    records that have not, and ``owners`` are the members there; ``owner`` and ``host`` are null. ``error`` is the name of
    Kafka's error code where the end could not be read."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    lag_ms: int | None
    owner: str | None
    host: str | None
    owners: NotRequired[list[str]]
    error: NotRequired[str]


class GroupDocument(TypedDict):
    """A group with its members; ``type`` and ``coordinator`` as in a list of groups. ``protocol`` is the assignor in force, ""
    while there is none; ``lag`` is the sum over the partitions, ``lag_ms`` the longest, null where no partition's is known.
    Only of the newer protocols (KIP-848): the group's epoch, and that of the target assignment, which is behind until the
    broker has computed it."""

    group: str
    state: str
    type: str
    protocol_type: str
    protocol: str
    coordinator: int | None
    group_epoch: NotRequired[int]
    target_assignment_epoch: NotRequired[int]
    members: list[DescribedMember] | list[ZooKeeperMember]
    partitions: list[DescribedPartition]
    lag: int | None
    lag_ms: int | None


class JournalCause(TypedDict):
    """One cause of an event: ``kind`` is one of the journal's causes, ``reason`` the client's own words (KIP-800). Of `coterie
    observe` also ``evidence``, "observed", "inferred" or "unknown", and the ``rule`` of an inferred one."""

    kind: str
    member_id: NotRequired[str]
    client_id: NotRequired[str]
    group_instance_id: NotRequired[str]
    reason: NotRequired[str]
    evidence: NotRequired[str]
    rule: NotRequired[str]


# A functional TypedDict: `from` is a keyword of Python.
MovedPartition = TypedDict("MovedPartition", {"topic": str, "partition": int, "from": str | None, "to": str | None})


class GroupEvent(TypedDict):
    """A line of a group's journal, and ``why``, its causes in words. A field without a value is left out."""

    time_ms: int
    group: str
    generation: int
    event: str
    state_from: str
    state_to: str
    causes: NotRequired[list[JournalCause]]
    leader: NotRequired[str]
    protocol: NotRequired[str]
    members: NotRequired[int]
    member: NotRequired[str]
    member_epoch: NotRequired[int]
    join_ms: NotRequired[int]
    sync_ms: NotRequired[int]
    moved: NotRequired[list[MovedPartition]]
    moved_count: NotRequired[int]
    unowned_count: NotRequired[int]
    unowned_ms: NotRequired[int]
    undetected_ms: NotRequired[int]
    coordinator: NotRequired[int]
    coordinator_from: NotRequired[int]
    coordinator_epoch: NotRequired[int]
    loaded_groups: NotRequired[int]
    load_ms: NotRequired[int]
    owners: NotRequired[dict[str, dict[str, list[int]]]]
    why: str


ResetOffset = TypedDict("ResetOffset", {"topic": str, "partition": int, "from": int | None, "to": int})


class DeletedOffset(TypedDict):
    """A partition and its deleted offset, of a share group the start offset; with --dry-run, what would be deleted."""

    topic: str
    partition: int
    offset: int


class PredictedSpread(TypedDict):
    """A measure over the runs of a setting."""

    mean: float
    lowest: float
    highest: float


class PredictedSetting(TypedDict):
    """The deploy under one setting; ``change`` is what to do for it, empty for today's. Unowned times in seconds: per partition
    over the whole deploy, and the longest in one piece."""

    setting: str
    change: str
    rebalances: PredictedSpread
    unowned_s: PredictedSpread
    longest_unowned_s: PredictedSpread
    duplicates: PredictedSpread
    moved: PredictedSpread


class PredictedDeploy(TypedDict):
    """A rolling restart of a group, or of ``only_one`` of its members, predicted: the costs of today's settings first.
    ``removal`` is leave or kill; ``restarts`` were run, and their costs scaled to all; ``assumed`` has a sentence for each
    value that is not known."""

    group: str
    pause_ms: int
    gap_ms: int
    removal: str
    only_one: bool
    members: int
    partitions: int
    restarts: int
    seeds: int
    costs: list[PredictedSetting]
    recommendation: str
    recommendation_phrase: Phrase
    assumed: list[str]
