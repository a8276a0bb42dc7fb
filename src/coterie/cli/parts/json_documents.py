"""What each command prints with `--json`: the class of its document. The commands' functions are typed with these classes,
docs/reference/json-output.md is made of them, and tests/cli/test_json_documents.py compares the outputs with them.

Times are in ms since 1970, lengths of time in ms, lags in records, unless a field's name ends in another unit. An absent value
is null, and a field is left out only where its type is NotRequired.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NotRequired, TypedDict

from coterie.cli.parts.json_figures import (
    CertificateFigures,
    ClientStoryRow,
    ClusterFigures,
    DemoResult,
    FleetFigures,
    GroupAsOf,
    ReportPage,
    StreamedTable,
    WhatIf,
)
from coterie.cli.parts.json_groups import (
    DeletedOffset,
    GroupDocument,
    GroupEvent,
    GroupRow,
    MovedPartition,
    PredictedDeploy,
    ResetOffset,
)

ROWS_OF_TABLES = "The number of rows of each table."


class AclRow(TypedDict):
    """An ACL, in Kafka's words: ``permission`` ALLOW or DENY, ``resource`` its type, ``pattern`` LITERAL or PREFIXED."""

    permission: str
    principal: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str


class AccessRuling(TypedDict):
    """``reason``: super_user, denied, allowed, no_acl or no_allowing_acl; ``acl``: the one that decides, if one does."""

    allowed: bool
    reason: str
    acl: AclRow | None


class QuotaRow(TypedDict):
    """``entity``: user, client-id or ip, or two of them, and the name of each; null is the default of all."""

    entity: dict[str, str | None]
    quota: str
    value: float


class AlteredQuotas(TypedDict):
    """``quotas``: the values that were set; null where one was removed."""

    entity: dict[str, str | None]
    quotas: dict[str, float | None]


class ScramUserRow(TypedDict):
    """A user's login by one mechanism."""

    user: str
    mechanism: str
    iterations: int


MovedPartition.__doc__ = "A partition whose owner changed: the member ids before and after, null for none."


ResetOffset.__doc__ = "A partition's committed offset before (null: none) and after; with --dry-run, what it would be."


class Deleted(TypedDict):
    """The name of the deleted group or topic."""

    deleted: str


class Created(TypedDict):
    """The name of the created topic."""

    created: str


class ListedTopic(TypedDict):
    """A topic with its number of partitions; ``internal`` as Kafka's Metadata response has it; ``error`` the name of Kafka's
    error code where the broker does not describe it."""

    topic: str
    partitions: int
    internal: bool
    error: NotRequired[str]


class DescribedReplicas(TypedDict):
    """A partition: the id of its leader (-1: none), the first offset of its log and its end (null without a leader), the
    leader's epoch (-1: not known), and the ids of its replicas, the preferred leader first, in sync, and offline."""

    partition: int
    leader: int
    start: int | None
    end: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


class Election(TypedDict):
    """A partition of an election: ``error`` is null where a leader was elected, or the name of Kafka's error code."""

    topic: str
    partition: int
    error: str | None


class PlannedReplicas(TypedDict):
    """The ids of the brokers that shall hold the partition, the preferred leader first."""

    topic: str
    partition: int
    replicas: list[int]


class ReassignmentPlan(TypedDict):
    """What has begun, or with --dry-run would; the form is that of kafka-reassign-partitions, which --plan reads."""

    version: int
    partitions: list[PlannedReplicas]


class ReassignmentRow(TypedDict):
    """A reassignment in progress (--list, --cancel): the ids of all replicas of now, and of those added and removed."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


class DescribedTopic(TypedDict):
    """A topic; ``configs`` has the settings without Kafka's default, with --all every setting; null for a sensitive one."""

    topic: str
    partitions: list[DescribedReplicas]
    configs: dict[str, str | None]


class GrownTopic(TypedDict):
    """A topic with its new number of partitions."""

    topic: str
    partitions: int


class Produced(TypedDict):
    """The number of records that the broker acknowledged."""

    topic: str
    acknowledged: int


class ConsumedRecord(TypedDict):
    """A record. Key, value and headers as text: bytes that are no UTF-8 become U+FFFD. Of several headers of one name the last
    is kept. ``delivery_count``: of a share group's record, how often it was delivered."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    headers: dict[str, str | None]
    delivery_count: NotRequired[int]


class FolderFinding(TypedDict):
    """A defect: ``file`` relative to the folder, ``position`` in bytes (null: the whole file), and what a start would do."""

    file: str
    position: int | None
    problem: str
    action: str


class CheckedFolder(TypedDict):
    """A data folder: the number of its logs, their size, and what is damaged."""

    logs: int
    bytes: int
    findings: list[FolderFinding]


class ServedApi(TypedDict):
    """An API of the protocol with the oldest and the newest version that the broker serves."""

    key: int
    name: str
    first: int
    last: int


class MessageSource(TypedDict):
    """A message and the Python source of its encoder and decoder."""

    message: str
    source: str


class JsonDocument(NamedTuple):
    """A command's output: the type of its document; ``per_line``: one document on each line, rather than one in all;
    ``meaning`` where the type has none of its own."""

    kind: Any
    per_line: bool = False
    meaning: str = ""


def json_documents() -> dict[str, JsonDocument]:
    """Every command that takes --json -> what it prints. The imports are made here: no command needs all of them."""
    from coterie.client.admin.brokers import TelemetryClient
    from coterie.client.admin.group_explanation import GroupExplanation
    from coterie.client.lint.rule import Advice
    from coterie.client.zookeeper.zookeeper_groups import Migrated
    from coterie.laboratory.experiments import Handover, MigrationStep
    from coterie.observer.flapping import FlappingMember

    return {
        "acls add": JsonDocument(list[AclRow]),
        "acls list": JsonDocument(list[AclRow]),
        "acls remove": JsonDocument(list[AclRow]),
        "acls why": JsonDocument(AccessRuling),
        "certify": JsonDocument(CertificateFigures),
        "certify-client": JsonDocument(list[ClientStoryRow]),
        "cluster describe": JsonDocument(ClusterFigures),
        "clients": JsonDocument(list[TelemetryClient]),
        "consume": JsonDocument(ConsumedRecord, per_line=True),
        "demo": JsonDocument(DemoResult),
        "groups delete": JsonDocument(Deleted),
        "groups delete-offsets": JsonDocument(list[DeletedOffset]),
        "groups describe": JsonDocument(GroupDocument),
        "groups flapping": JsonDocument(list[FlappingMember]),
        "groups history": JsonDocument(list[GroupEvent]),
        "groups lint": JsonDocument(list[Advice]),
        "groups list": JsonDocument(list[GroupRow]),
        "groups migrate": JsonDocument(list[Migrated]),
        "groups predict": JsonDocument(PredictedDeploy),
        "groups reset": JsonDocument(list[ResetOffset]),
        "groups watch": JsonDocument(GroupExplanation, per_line=True),
        "groups why": JsonDocument(GroupExplanation),
        "lab handover": JsonDocument(list[Handover]),
        "lab migration": JsonDocument(list[MigrationStep]),
        "log check": JsonDocument(CheckedFolder),
        "observe": JsonDocument(GroupEvent, per_line=True),
        "pipeline as-of": JsonDocument(GroupAsOf),
        "pipeline delays": JsonDocument(StreamedTable),
        "pipeline export": JsonDocument(dict[str, int], meaning=ROWS_OF_TABLES),
        "pipeline fleet": JsonDocument(FleetFigures),
        "pipeline history": JsonDocument(dict[str, int], meaning=ROWS_OF_TABLES),
        "pipeline keys": JsonDocument(StreamedTable),
        "pipeline report": JsonDocument(ReportPage),
        "pipeline table": JsonDocument(StreamedTable),
        "pipeline what-if": JsonDocument(WhatIf),
        "produce": JsonDocument(Produced),
        "quotas list": JsonDocument(list[QuotaRow]),
        "quotas remove": JsonDocument(AlteredQuotas),
        "quotas set": JsonDocument(AlteredQuotas),
        "topics create": JsonDocument(Created),
        "topics delete": JsonDocument(Deleted),
        "topics describe": JsonDocument(DescribedTopic),
        "topics elect": JsonDocument(list[Election]),
        "topics grow": JsonDocument(GrownTopic),
        "topics list": JsonDocument(list[ListedTopic]),
        "topics reassign": JsonDocument(ReassignmentPlan | list[ReassignmentRow]),
        "users list": JsonDocument(list[ScramUserRow]),
        "wire": JsonDocument(list[ServedApi] | MessageSource),
    }
