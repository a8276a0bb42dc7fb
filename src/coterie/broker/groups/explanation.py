"""The explanation of a group with the broker's data: the core's view, lag and progress per partition, last fetches.

Lag is the end of the log less the committed offset, never negative; a partition without a committed offset has none. In time
it is the age of the record at the committed offset, by the header of its batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from coterie.broker.clients.clients import Clients, SeenClient
from coterie.broker.clients.telemetry import Instance, as_json, last_metrics
from coterie.broker.groups.group_coordinator import GroupCoordinator
from coterie.broker.process.scheduling import Clock
from coterie.broker.storage.topics import Topics
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.journal.generations import owners_of
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.share.state import ShareGroup
from coterie.coordinator.state import CONSUMER, TopicPartition
from coterie.coordinator.streams.leave import task_owners
from coterie.coordinator.streams.state import StreamsGroup
from coterie.coordinator.views.classic_group import explain_group
from coterie.coordinator.views.consumer_group import explain_consumer_group
from coterie.coordinator.views.share_group import explain_share_group
from coterie.coordinator.views.streams_group import explain_streams_group
from coterie.records.batch import NO_TIMESTAMP
from coterie.text.phrase import Phrase, phrase_fields
from coterie.text.quantity import STALLED_AFTER_MS, total_lag, total_lag_ms

NOT_PUSHED: dict[str, Any] = {"last_push_ms": None, "pushed": []}
_OF_TASKS = ("active", "standby", "warmup", "restoring", "restoring_phrases")


class ShareOffset(NamedTuple):
    """Where a share group is in a partition, its start offset, and the records from there on that are not done with: None
    before its first fetch."""

    start: int
    lag: int | None


ShareOffsets = Mapping[TopicPartition, ShareOffset]


class Progress:
    """When each committed offset last moved, as far as calls have observed it. Cleared when it has very many entries, so
    that deleted groups do not stay in memory."""

    REMEMBERED = 200_000

    def __init__(self) -> None:
        self._seen: dict[tuple[str, TopicPartition], tuple[int, int]] = {}

    def unmoved_ms(self, group_id: str, partition: TopicPartition, offset: int, committed_ms: int, now_ms: int) -> int:
        """The time in ms since the offset last moved: since its commit, or since it was first observed."""
        seen = self._seen.get((group_id, partition))
        if seen is None or seen[0] != offset:
            if len(self._seen) >= self.REMEMBERED:
                self._seen.clear()
            self._seen[group_id, partition] = seen = (offset, committed_ms)
        return max(now_ms - seen[1], 0)


class GroupSources(Protocol):
    """What the explanation of a group is made of."""

    groups: GroupCoordinator
    topics: Topics
    clock: Clock
    clients: Clients
    progress: Progress


def state_of(groups: GroupCoordinator, group: AnyGroup, now_ms: int) -> dict[str, Any]:
    """The core's explanation of a group of either protocol."""
    config = groups.config_of(group.group_id)
    if isinstance(group, ConsumerGroup):
        return explain_consumer_group(group, now_ms, config, groups.topics_view.image())
    if isinstance(group, ShareGroup):
        return explain_share_group(group, now_ms, config)
    if isinstance(group, StreamsGroup):
        return explain_streams_group(group, now_ms, config)
    return explain_group(group, now_ms, config)


def explained(sources: GroupSources, group: AnyGroup, shared: ShareOffsets = MappingProxyType({})) -> dict[str, Any]:
    """The explanation of one group as JSON; without the lag of a share group where ``shared`` is empty."""
    now_ms = sources.clock.now_ms()
    document = state_of(sources.groups, group, now_ms)
    processes = Counter((m["client_id"], m["host"]) for m in document["members"])
    pushing = sources.clients.telemetry.by_client()
    for member in document["members"]:
        who = (member["client_id"], member["host"])
        # Neither fetches nor ApiVersions carry a member id: two members of one client id and host cannot be rows apart.
        is_alone = processes[who] == 1
        seen = sources.clients.seen.get(*who) if is_alone else SeenClient()
        member["last_fetch_ms"] = None if seen.fetched_ms is None else now_ms - seen.fetched_ms
        member["client_software"] = seen.software
        member |= NOT_PUSHED | (_pushed(pushing, who, now_ms) if is_alone else {})
        for name in _OF_TASKS:  # a member of a streams group has them
            member.setdefault(name, [])
    document["partitions"] = partitions_of(sources, group, now_ms, shared)
    document["lag"], document["lag_ms"] = total_lags(group, document["partitions"], shared)
    document["stalled"] = [f"{p['topic']}-{p['partition']}" for p in document["partitions"] if p["stalled"]]
    document["unseen"] = document["unseen_phrase"] = None  # a broker sees its own groups whole
    return document


def unserved(group_id: str, reason: str) -> dict[str, Any]:
    """The explanation of a group of which nothing is known, and why."""
    verdict = Phrase("unserved", {"reason": reason})
    nothing = dict.fromkeys(
        ("in_state_ms", "protocol_type", "protocol", "leader", "next_timeout", "lag", "lag_ms", "unseen")
    )
    empty: dict[str, Any] = {name: [] for name in ("waiting_for", "members", "reserved_ids", "partitions", "stalled")}
    known = {"group": group_id, "state": "Unknown", "generation": -1} | phrase_fields("verdict", verdict)
    return known | nothing | empty


def _pushed(pushing: Mapping[tuple[str, str], Instance], who: tuple[str, str], now_ms: int) -> dict[str, Any]:
    """What a member's client pushed last (KIP-714)."""
    client_id, host = who
    instance = pushing.get((client_id, host.removeprefix("/")))
    if instance is None or instance.pushed_ms < 0:
        return {}
    metrics, _ = last_metrics(instance)
    return {"last_push_ms": max(now_ms - instance.pushed_ms, 0), "pushed": [as_json(metric) for metric in metrics]}


def owners(sources: GroupSources, group: AnyGroup) -> dict[TopicPartition, str]:
    """The owner (member id) of each assigned partition; empty where the assignments are not those of consumers."""
    if isinstance(group, ConsumerGroup):
        names = {topic_id: sources.topics.name_of("", topic_id, True) for topic_id, _ in group.owners}
        return {
            (name, partition): member_id
            for (topic_id, partition), member_id in group.owners.items()
            if (name := names[topic_id]) is not None
        }
    if isinstance(group, ShareGroup):
        return {}  # `sharers`
    if isinstance(group, StreamsGroup):
        return task_owners(group)
    if group.protocol_type != CONSUMER:
        return {}
    return owners_of((m.member_id, m.assignment) for m in group.members.values())


def sharers(sources: GroupSources, group: AnyGroup) -> dict[TopicPartition, list[str]]:
    """The member ids of a share group by partition, which several have at once; of a group of another kind nothing."""
    shared: dict[TopicPartition, list[str]] = {}
    for member_id, member in group.members.items() if isinstance(group, ShareGroup) else ():
        for topic_id, partition in member.current.assigned:
            name = sources.topics.name_of("", topic_id, True)
            if name is not None:
                shared.setdefault((name, partition), []).append(member_id)
    return shared


def partitions_of(
    sources: GroupSources, group: AnyGroup, now_ms: int, shared: ShareOffsets = MappingProxyType({})
) -> list[dict[str, Any]]:
    """Every partition with a committed offset or an owner, with its lag and whether it is stalled; of a share group, which
    commits nothing, the start offset stands for the committed one."""
    owned, sharing, rows = owners(sources, group), sharers(sources, group), list[dict[str, Any]]()
    for topic, partition in sorted({*group.offsets, *owned, *sharing, *shared}):
        named = topic, partition
        commit, start = group.offsets.get(named), shared.get(named)
        end = end_offset(sources, topic, partition)
        committed = lag = lag_ms = unmoved_ms = None
        since_ms = now_ms
        if start is not None:
            committed, lag = start
        elif commit is not None:
            committed, since_ms = commit.offset, commit.commit_timestamp_ms
            lag = None if end is None else max(end - committed, 0)
        if committed is not None:
            lag_ms = 0 if lag == 0 else _lag_ms(sources, topic, partition, committed, now_ms)
            unmoved_ms = sources.progress.unmoved_ms(group.group_id, named, committed, since_ms, now_ms)
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "owner": owned.get(named),
                "owners": sharing.get(named, []),
                "committed": committed,
                "end": end,
                "lag": lag,
                "unmoved_ms": unmoved_ms,
                "lag_ms": lag_ms,
                "stalled": bool(lag) and unmoved_ms is not None and unmoved_ms >= STALLED_AFTER_MS,
            }
        )
    return rows


def total_lags(
    group: AnyGroup, partitions: list[dict[str, Any]], shared: ShareOffsets
) -> tuple[int | None, int | None]:
    """In records and in ms; None of a share group whose offsets are not known."""
    if isinstance(group, ShareGroup) and not shared:
        return None, None
    return total_lag(partitions), total_lag_ms(partitions)


def end_offset(sources: GroupSources, topic: str, partition: int) -> int | None:
    """The end of a partition's log; None where there is no such partition."""
    existing = sources.topics.by_name.get(topic)
    if existing is None or partition >= len(existing.partitions):
        return None
    return existing.partitions[partition].log.end_offset


def _lag_ms(sources: GroupSources, topic: str, partition: int, committed: int, now_ms: int) -> int | None:
    """How long ago the first record that is not committed was written; None where that is not known."""
    existing = sources.topics.by_name.get(topic)
    if existing is None or partition >= len(existing.partitions):
        return None
    try:
        timestamp = existing.partitions[partition].log.timestamp_at(committed)
    except OSError:
        return None
    return None if timestamp == NO_TIMESTAMP else max(now_ms - timestamp, 0)
