"""The groups as their log leaves them: as of now, a time, or an offset; by `Shard.load`, the broker's own replay.

Of a log only what still counts is replayed: the newest record of each key, and everything of transactions. That
changes nothing, since a later record of a key replaces an earlier one whole; tests/pipeline/history/test_history.py compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.coordinator.events import OffsetRemoved, OffsetStored
from coterie.coordinator.journal.generations import owners_of
from coterie.coordinator.outcome import CoordinatorConfig
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.shard import Shard
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import CONSUMER, CommittedOffset, Group, TopicPartition
from coterie.coordinator.stored_records.stored import StoredRecord, group_key, to_record
from coterie.coordinator.streams.leave import task_owners
from coterie.coordinator.streams.state import StreamsGroup
from coterie.pipeline.history.reading import topic_lookups
from coterie.pipeline.history.reading.decoding import CONSUMER_GROUP, UNREADABLE
from coterie.pipeline.history.tables import COMMITS, GROUP_LOG, GROUPS
from coterie.pipeline.offsets import id_text
from coterie.pipeline.tables.files import rows_of
from coterie.pipeline.tables.frame import Frame, arrow_schema, column_names
from coterie.records.arrow_arrays import table_of_rows


@dataclass(frozen=True, slots=True)
class Moment:
    """As of a time (ms since 1970), or an offset of the group's log partition; neither: the newest."""

    time_ms: int | None = None
    log_offset: int | None = None


def replayed(rows: Iterable[dict[str, Any]]) -> Shard:
    """Rows of COMMITS (of the kind commit) and GROUP_LOG of one log partition, in the order of the log -> the shard that a
    broker would have loaded."""
    shard = Shard(CoordinatorConfig())
    for row in rows:
        producer_id = -1 if row["producer_id"] is None else row["producer_id"]
        if row["kind"] == UNREADABLE:
            continue
        if row["kind"] == "marker":
            shard.end_transaction(producer_id, row["committed"], row["time_ms"])
        else:
            record = _record(row)
            shard.load(record.key, record.value, row["time_ms"], producer_id)
    return shard


def _record(row: dict[str, Any]) -> StoredRecord:
    if row["kind"] == "group":
        return StoredRecord(group_key(row["group"]), row["value"])
    if row["kind"] == CONSUMER_GROUP:
        return StoredRecord(row["key"], row["value"])
    topic, partition = row["topic"], row["partition"]
    if row["deleted"]:
        made = to_record(row["group"], OffsetRemoved(topic, partition))
    else:
        expires_ms = -1 if row["expire_ms"] is None else row["expire_ms"]
        committed = CommittedOffset(row["offset"], row["leader_epoch"], row["metadata"], row["commit_ms"], expires_ms)
        made = to_record(row["group"], OffsetStored(topic, partition, committed))
    assert made is not None
    return made


def groups(commits: Frame, group_log: Frame) -> Frame:
    """COMMITS, GROUP_LOG -> GROUPS. Each log partition is replayed by one task."""
    plain = commits.where_null("producer_id").newest(["group", "topic", "partition", "log_partition"])
    in_transactions = commits.where_null("producer_id", is_null=False)
    states = group_log.where("kind", "group", CONSUMER_GROUP).newest(["kind", "group", "key", "log_partition"])

    def run(commits: Any, states: Any) -> Any:
        rows = _in_order([*_commit_records(commits.to_pylist()), *states.to_pylist()])
        last = {row["group"]: row["log_offset"] for row in rows if row["group"] is not None}
        records = [_group_row(group, last.get(group.group_id)) for group in replayed(rows).every_group()]
        return table_of_rows(records, arrow_schema(GROUPS))

    markers = group_log.where("kind", "marker")
    return plain.union(in_transactions).cogroup(states.union(markers), "log_partition", run, GROUPS)


def _commit_records(commits: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of COMMITS as `replayed` takes them."""
    return ({"kind": "commit", "time_ms": row["commit_ms"]} | row for row in commits)


def _in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["log_offset"])


def _group_row(group: AnyGroup, log_offset: int | None) -> dict[str, Any]:
    classic = group if isinstance(group, Group) else None
    return {
        "group": group.group_id,
        "state": group.phase.value,
        "generation": group.generation,
        "protocol_type": CONSUMER if classic is None else classic.protocol_type,
        "protocol": None if classic is None else classic.protocol,
        "leader": classic.leader if classic is not None and classic.members else None,
        "members": len(group.members),
        "offsets": len(group.offsets),
        "pending_offsets": sum(map(len, group.pending_offsets.values())),
        "log_offset": log_offset,
    }


def group_from_tables(out: Path, group_id: str, moment: Moment) -> AnyGroup | None:
    """One group as it was, from the facts in OUT; None where there was none yet, or no more. Needs no Spark."""
    commits, group_log = (
        rows_of(out / name, group_id, column_names(ddl), or_of_no_group=True)  # the markers belong to no group
        for name, ddl in (("commits", COMMITS), ("group_log", GROUP_LOG))
    )
    rows = [*_commit_records(commits), *group_log]
    own = {row["log_partition"] for row in rows if row["group"] is not None}
    kept = [row for row in rows if row["log_partition"] in own and _is_until(row, moment)]
    return replayed(_in_order(kept)).group(group_id)


@dataclass(frozen=True, slots=True)
class MemberThen:
    """A member of a group as it was, with the partitions that it owned."""

    member_id: str
    client_id: str
    group_instance_id: str | None
    partitions: tuple[TopicPartition, ...]


def members_as_of(out: Path, group: AnyGroup) -> list[MemberThen]:
    """The members of a group of `group_from_tables`, of either protocol; a topic without a name by its id."""
    if isinstance(group, Group):
        owners = owners_of((m.member_id, m.assignment) for m in group.members.values())
        return [
            MemberThen(m.member_id, m.client_id, m.group_instance_id, _owned_by(m.member_id, owners))
            for m in group.members.values()
        ]
    if isinstance(group, StreamsGroup):
        tasks = task_owners(group)
        return [
            MemberThen(m.member_id, m.metadata.client_id, m.metadata.instance_id, _owned_by(m.member_id, tasks))
            for m in group.members.values()
        ]
    names = topic_lookups.read_names(out)
    if isinstance(group, ShareGroup):
        return [
            MemberThen(
                m.member_id,
                m.subscription.client_id,
                None,
                tuple(sorted((names.get(id_text(topic), id_text(topic)), p) for topic, p in m.current.assigned)),
            )
            for m in group.members.values()
        ]
    named = {
        (names.get(id_text(topic_id), id_text(topic_id)), partition): member_id
        for (topic_id, partition), member_id in group.owners.items()
    }
    return [
        MemberThen(m.member_id, m.subscription.client_id, m.subscription.instance_id, _owned_by(m.member_id, named))
        for m in group.members.values()
    ]


def _owned_by(member_id: str, owners: Mapping[TopicPartition, str]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(tp for tp, owner in owners.items() if owner == member_id))


def _is_until(row: dict[str, Any], moment: Moment) -> bool:
    in_time = moment.time_ms is None or row["time_ms"] <= moment.time_ms
    return in_time and (moment.log_offset is None or row["log_offset"] <= moment.log_offset)
