"""Groups as `coterie groups list` and `groups describe` show them, with their lag in records and in time."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coterie.cli.parts.invocation import LEADER_MS
from coterie.text.quantity import total_lag, total_lag_ms

if TYPE_CHECKING:
    from coterie.cli.parts.json_groups import DescribedMember, DescribedPartition, GroupDocument, GroupRow
    from coterie.client import (
        Admin,
        ConsumerGroupDescription,
        GroupListing,
        KafkaError,
        MemberDescription,
        TopicPartition,
    )

    Offsets = Mapping[TopicPartition, int]
AT_ONCE = 100  # groups whose coordinators are sent requests at the same time


async def describe_group(group: str, client: dict[str, str]) -> tuple[GroupDocument, list[KafkaError]]:
    """What `groups describe --json` prints, and why the end of a partition is missing in it. Raises KafkaError."""
    from coterie.client import Admin

    async with Admin(client) as admin:
        described = await admin.describe_consumer_group(group)
        offsets = await _offsets_of(admin, described)
        committed, errors = offsets.committed, dict(offsets.errors)
        wanted = dict.fromkeys([*committed, *described.owners], -1)
        ends = await admin.list_offsets(wanted, errors=errors, timeout_ms=LEADER_MS)
        (lags_ms,) = await lags_ms_of(admin, [committed], ends)
    sharers = _sharers(described)  # of each partition several
    owners = {} if sharers else described.owners
    partitions: list[DescribedPartition] = []
    for tp in sorted(wanted):
        owner = owners.get(tp)
        partitions.append(
            offsets.row(tp, ends.get(tp), lags_ms.get(tp))
            | {"owner": owner.member_id if owner else None, "host": owner.host if owner else None}
        )
        if tp in sharers:
            partitions[-1]["owners"] = sharers[tp]
        if tp in errors:
            partitions[-1]["error"] = errors[tp].code.name
    document: GroupDocument = {
        "group": group,
        "state": described.state,
        "type": str(described.type),
        "protocol_type": described.protocol_type,
        "protocol": described.partition_assignor,
        "coordinator": described.coordinator.id,
        "members": [_described_member(m) for m in described.members],
        "partitions": partitions,
        "lag": total_lag(partitions),
        "lag_ms": total_lag_ms(partitions),
    }
    if described.group_epoch is not None and described.target_assignment_epoch is not None:
        document["group_epoch"] = described.group_epoch
        document["target_assignment_epoch"] = described.target_assignment_epoch
    return document, [errors[tp] for tp in sorted(errors)]


class ReadOffsets(NamedTuple):
    """Where a group is: its committed offsets, or a share group's start offsets with the lags that its coordinator knows, and
    the ``errors`` of partitions for which it knows neither."""

    committed: Offsets
    shared_lags: Mapping[TopicPartition, int | None] | None
    errors: Mapping[TopicPartition, KafkaError]

    def row(self, tp: TopicPartition, end: int | None, lag_ms: int | None) -> DescribedPartition:
        """Of a partition without an owner. Records behind a start offset may have ended, so that a lag is less than the rest
        of the log."""
        row = partition_row(tp, self.committed.get(tp), end, lag_ms)
        if self.shared_lags is not None:
            row["lag"] = self.shared_lags.get(tp)
            row["lag_ms"] = 0 if row["lag"] == 0 else lag_ms
        return row


async def _offsets_of(admin: Admin, described: ConsumerGroupDescription) -> ReadOffsets:
    """Raises KafkaError."""
    from coterie.client import GroupType

    if described.type is not GroupType.SHARE:
        return ReadOffsets(await admin.list_consumer_group_offsets(described.group_id), None, {})
    errors: dict[TopicPartition, KafkaError] = {}
    at = await admin.list_share_group_offsets(described.group_id, errors=errors)
    return ReadOffsets({tp: o.start_offset for tp, o in at.items()}, {tp: o.lag for tp, o in at.items()}, errors)


def _sharers(described: ConsumerGroupDescription) -> dict[TopicPartition, list[str]]:
    """The members of a share group at each partition; of another group none."""
    from coterie.client import GroupType

    if described.type is not GroupType.SHARE:
        return {}
    sharers: dict[TopicPartition, list[str]] = {}
    for member in sorted(described.members, key=lambda m: m.member_id):
        for tp in member.assignment.topic_partitions:
            sharers.setdefault(tp, []).append(member.member_id)
    return sharers


def partition_row(tp: TopicPartition, committed: int | None, end: int | None, lag_ms: int | None) -> DescribedPartition:
    """The row of a partition without an owner."""
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "committed": committed,
        "end": end,
        "lag": None if committed is None or end is None else max(end - committed, 0),
        "lag_ms": lag_ms,
        "owner": None,
        "host": None,
    }


def _described_member(member: MemberDescription) -> DescribedMember:
    described: DescribedMember = {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": len(member.assignment.topic_partitions),
    }
    if member.member_epoch is not None and member.target_assignment is not None:
        described["member_epoch"] = member.member_epoch
        described["target_partitions"] = len(member.target_assignment.topic_partitions)
    if member.tasks is not None and member.process_id is not None:
        described["process_id"] = member.process_id
        described["tasks"] = {
            role: sorted(getattr(member.tasks, role), key=_in_order) for role in ("active", "standby", "warmup")
        }
    return described


def _in_order(task: str) -> tuple[str, int]:
    """``1_3``, by subtopology and partition."""
    subtopology_id, _, partition = task.rpartition("_")
    return subtopology_id, int(partition)


async def list_groups(client: dict[str, str], states: Collection[str]) -> tuple[list[GroupRow], list[KafkaError]]:
    """What `groups list --json` prints, and what of it is missing. Raises KafkaError where no broker responds."""
    from coterie.client import Admin
    from coterie.client.admin_types import Node

    of_brokers: dict[Node, KafkaError] = {}
    of_partitions: dict[TopicPartition, KafkaError] = {}
    async with Admin(client) as admin:
        listed = await admin.list_groups(states, errors=of_brokers)
        described, of_groups = await _each(admin, listed)
        committed = {group: offsets.committed for group, (_, offsets) in described.items()}
        wanted = {tp: -1 for offsets in committed.values() for tp in offsets}
        ends = await admin.list_offsets(wanted, errors=of_partitions, timeout_ms=LEADER_MS) if wanted else {}
        lags_ms = dict(zip(committed, await lags_ms_of(admin, committed.values(), ends), strict=True))
    rows: list[GroupRow] = []
    of_states: list[KafkaError] = []
    for group in listed:
        row: GroupRow = {
            "group": group.group_id,
            "state": group.state,
            "type": str(group.type),
            "protocol_type": group.protocol_type,
            "protocol": None,
            "coordinator": None,
            "members": None,
            "lag": None,
            "lag_ms": None,
        }
        if group.group_id in described:
            description, offsets = described[group.group_id]
            row |= _figures(description, offsets, ends, lags_ms[group.group_id])
            unread = {tp: of_partitions[tp] for tp in offsets.committed if tp in of_partitions}
            failures = {**offsets.errors, **unread}
            failure = failures[min(failures)] if failures else None
            of_states += offsets.errors.values()
        else:
            failure = of_groups[group.group_id]
        rows.append(row if failure is None else row | {"error": str(failure)})
    errors = [of_partitions[tp] for tp in sorted(of_partitions)]
    return rows, [*of_brokers.values(), *of_groups.values(), *of_states, *errors]


def _figures(described: ConsumerGroupDescription, offsets: ReadOffsets, ends: Offsets, lags_ms: Offsets) -> GroupRow:
    of = {*offsets.committed, *_sharers(described)}
    partitions = [offsets.row(tp, ends.get(tp), lags_ms.get(tp)) for tp in of]
    figures: GroupRow = {
        "state": described.state,
        "type": str(described.type),
        "protocol": described.partition_assignor,
        "coordinator": described.coordinator.id,
        "members": len(described.members),
        "lag": total_lag(partitions),
        "lag_ms": total_lag_ms(partitions),
    }  # type: ignore[typeddict-item]
    return figures


async def _each(
    admin: Admin, listed: Iterable[GroupListing]
) -> tuple[dict[str, tuple[ConsumerGroupDescription, ReadOffsets]], dict[str, KafkaError]]:
    """The description and the offsets of each group, or its error."""
    from coterie.client import KafkaError

    described: dict[str, tuple[ConsumerGroupDescription, ReadOffsets]] = {}
    errors: dict[str, KafkaError] = {}

    async def one(group: GroupListing) -> None:
        try:
            description = await admin.describe_consumer_group(group.group_id)
            described[group.group_id] = description, await _offsets_of(admin, description)
        except KafkaError as error:
            is_named = group.group_id in str(error)
            errors[group.group_id] = error if is_named else KafkaError(error.code, f"group {group.group_id}: {error}")

    groups = iter(listed)
    while chunk := list(itertools.islice(groups, AT_ONCE)):
        await asyncio.gather(*(one(group) for group in chunk))
    return described, errors


async def lags_ms_of(admin: Admin, committed: Iterable[Offsets], ends: Offsets) -> list[dict[TopicPartition, int]]:
    """For each group's committed offsets the lags in ms, as far as they are known: how long ago the first record that is not
    committed was written; 0 where there is none. Raises KafkaError."""
    groups = list(committed)
    missing = sorted({(tp, offset) for offsets in groups for tp, offset in offsets.items() if offset < ends.get(tp, 0)})
    times: dict[tuple[TopicPartition, int], int] = {}
    while missing:  # a request has one offset of a partition
        wanted = dict(missing)
        missing = [(tp, offset) for tp, offset in missing if wanted[tp] != offset]
        times |= {(tp, wanted[tp]): at for tp, at in (await admin.record_times(wanted)).items()}
    now_ms = time.time() * 1000
    return [
        {tp: 0 for tp, offset in offsets.items() if offset >= ends.get(tp, offset + 1)}
        | {tp: max(int(now_ms - times[tp, at]), 0) for tp, at in offsets.items() if (tp, at) in times}
        for offsets in groups
    ]
