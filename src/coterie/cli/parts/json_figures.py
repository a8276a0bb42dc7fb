"""The documents of `--json` that hold figures: of clusters, the laboratory, pipelines, checks and measurements.
`json_documents` has the others and the table of all."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class StreamedTable(TypedDict):
    """The rows of the table, and its folder."""

    rows: int
    table: str


class MemberAsOf(TypedDict):
    """A member of a group of the past; ``partitions`` as TOPIC-PARTITION."""

    member_id: str
    client_id: str
    group_instance_id: str | None
    partitions: list[str]


class OffsetAsOf(TypedDict):
    """An offset that the group had committed."""

    topic: str
    partition: int
    offset: int


class GroupAsOf(TypedDict):
    """A group as it was at the given time; ``protocol`` is its assignor, null while there was none."""

    group: str
    state: str
    generation: int
    protocol: str | None
    members: list[MemberAsOf]
    offsets: list[OffsetAsOf]


class WhatIfMeasures(TypedDict):
    """The measures of one setting over its seeds: mean, lowest and highest. Times in ms; ``mean_detection_ms`` is null where no
    member was killed; ``rebalances_avoided``: how many fewer than under the first setting, in the mean."""

    setting: int
    assignor: str
    static: bool
    session_timeout_ms: int
    heartbeat_interval_ms: int
    initial_delay_ms: int
    max_poll_interval_ms: int
    removal: str
    members: int
    rebalances_avoided: float
    seeds: int
    rebalances: float
    rebalances_low: int
    rebalances_high: int
    unowned_ms: float
    unowned_ms_low: int
    unowned_ms_high: int
    moved: float
    moved_low: int
    moved_high: int
    duplicates: float
    duplicates_low: int
    duplicates_high: int
    mean_detection_ms: float | None
    mean_detection_ms_low: float | None
    mean_detection_ms_high: float | None
    false_alarms: float
    false_alarms_low: int
    false_alarms_high: int
    requests: float
    requests_low: int
    requests_high: int


class WhatIf(TypedDict):
    """The number of runs, and a row for each setting."""

    runs: int
    settings: list[WhatIfMeasures]


class ReportPage(TypedDict):
    """The path of the page."""

    page: str


class DifferingResponseDocument(TypedDict):
    """A request with the broker's response and the recorded one, field by field as the wire's schema names them."""

    request: dict[str, Any]
    response: Any
    kafka: Any


class FleetGroup(TypedDict):
    """A group over all of a history: the columns of the table `fleet_groups`."""

    group: str
    rebalances: int
    unowned_ms: int | None
    undetected_ms: int | None
    moved: int
    members: int
    deploys: int
    deploy_unowned_ms: int | None
    cause: str
    cause_unowned_ms: int | None
    stated: int
    inferred: int
    unknown: int
    first_ms: int
    last_ms: int


class FleetCause(TypedDict):
    """A cause over all groups: its rebalances, the time without an owner in them, and the groups that had it."""

    cause: str
    rebalances: int
    unowned_ms: int | None
    groups: int


class FleetDeploy(TypedDict):
    """A deploy: the columns of the table `fleet_deploys`."""

    group: str
    from_ms: int
    until_ms: int
    restarted: int
    members: int
    rebalances: int
    unowned_ms: int | None
    moved: int


class FleetFigures(TypedDict):
    """All groups of a cluster: the number of rows of each table, the groups and deploys with the longest time without an owner,
    and every cause."""

    rows: dict[str, int]
    groups: list[FleetGroup]
    causes: list[FleetCause]
    deploys: list[FleetDeploy]


class CertificateFigures(TypedDict):
    """How a broker compares with the recorded Apache Kafka of the version ``like``: requests sent and requests whose responses
    differ; ``rules`` maps a named rule to its result."""

    broker: str
    like: str
    requests: int
    different: int
    rules: dict[str, str]
    differences: list[DifferingResponseDocument]


class ClientFindingRow(TypedDict):
    """What is wrong: the first of the ``cases``, ``at_s`` seconds after the story's start, the step before it, and the last
    line of the group's journal before it."""

    rule: str
    text: str
    at_s: float
    cases: int
    after: str
    journal: str


class ClientStoryRow(TypedDict):
    """How a program did in a story: right, wrong, not met (``detail`` names the requests that never came), or not run."""

    story: str
    text: str
    steps: list[str]
    outcome: str
    detail: str
    seconds: float
    findings: list[ClientFindingRow]


class DemoCheck(TypedDict):
    """A check of the demo."""

    check: str
    right: bool
    detail: str


class DemoResult(TypedDict):
    """The demo's checks, how long it took, and the path of its report."""

    right: bool
    seconds: float
    report: str
    checks: list[DemoCheck]


class ClusterBrokerRow(TypedDict):
    """A broker that is registered, has replicas, or is of the folder of --data. ``address`` is null where it is not known.
    ``under_replicated`` counts its replicas that are not in sync. Only with --data: ``pid``, null where it does not run."""

    broker: int
    address: str | None
    rack: str | None
    is_live: bool
    leads: int
    replicas: int
    under_replicated: int
    pid: NotRequired[int | None]


class ClusterFigures(TypedDict):
    """A cluster: ``controller`` is null while there is none; partitions, those with a replica that is not in sync, and those
    without a leader, of all topics, internal ones too. Only with --data: the address and the pid of its ZooKeeper."""

    cluster_id: str
    controller: int | None
    brokers: list[ClusterBrokerRow]
    topics: int
    partitions: int
    under_replicated: int
    leaderless: int
    zookeeper: NotRequired[str]
    zookeeper_pid: NotRequired[int | None]
