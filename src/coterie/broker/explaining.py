"""A group explained with all that the broker knows: the core's view, lag and progress per partition, last fetches.

Lag is the end of the log less the committed offset, never negative; a partition without a committed offset has none.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from coterie.coordinator.explain import explain_group
from coterie.coordinator.journal_lines import owners_of
from coterie.coordinator.state import Group, TopicPartition
from coterie.coordinator.subscriptions import CONSUMER
from coterie.lag import total_lag

if TYPE_CHECKING:
    from coterie.broker.broker import Broker

STALLED_AFTER_MS = 60_000


class Progress:
    """When each committed offset last moved. Looked at whenever somebody asks; nothing runs in between. Begun anew when
    it has seen very many, so that deleted groups are not remembered for ever."""

    REMEMBERED = 200_000

    def __init__(self) -> None:
        self._seen: dict[tuple[str, TopicPartition], tuple[int, int]] = {}

    def unmoved_ms(self, group_id: str, partition: TopicPartition, offset: int, committed_ms: int, now_ms: int) -> int:
        """For how long the offset has been what it is: since its commit, or since it was first seen so."""
        seen = self._seen.get((group_id, partition))
        if seen is None or seen[0] != offset:
            if len(self._seen) >= self.REMEMBERED:
                self._seen.clear()
            self._seen[group_id, partition] = seen = (offset, committed_ms)
        return max(now_ms - seen[1], 0)


def explained(broker: Broker, group: Group) -> dict[str, Any]:
    """The whole document of one group."""
    now_ms = broker.clock.now_ms()
    document = explain_group(group, now_ms, broker.groups.config)
    processes = Counter((m["client_id"], m["host"]) for m in document["members"])
    for member in document["members"]:
        who = (member["client_id"], member["host"])
        # Fetches carry no member id: two members of one client id and host cannot be told apart.
        fetched_ms = broker.fetches.get(who) if processes[who] == 1 else None
        member["last_fetch_ms"] = None if fetched_ms is None else now_ms - fetched_ms
    document["partitions"] = partitions_of(broker, group, now_ms)
    document["lag"] = total_lag(document["partitions"])
    document["stalled"] = [f"{p['topic']}-{p['partition']}" for p in document["partitions"] if p["stalled"]]
    return document


def owners(group: Group) -> dict[TopicPartition, str]:
    """Who owns what, as far as the assignments can be read."""
    if group.protocol_type != CONSUMER:
        return {}
    return owners_of((m.member_id, m.assignment) for m in group.members.values())


def partitions_of(broker: Broker, group: Group, now_ms: int) -> list[dict[str, Any]]:
    """Every partition with a committed offset or an owner, with its lag and whether it stands still."""
    owned, told = owners(group), []
    for topic, partition in sorted({*group.offsets, *owned}):
        committed = group.offsets.get((topic, partition))
        end = _end_offset(broker, topic, partition)
        lag = unmoved_ms = None
        if committed is not None:
            lag = None if end is None else max(end - committed.offset, 0)
            unmoved_ms = broker.progress.unmoved_ms(
                group.group_id, (topic, partition), committed.offset, committed.commit_timestamp_ms, now_ms
            )
        told.append(
            {
                "topic": topic,
                "partition": partition,
                "owner": owned.get((topic, partition)),
                "committed": None if committed is None else committed.offset,
                "end": end,
                "lag": lag,
                "unmoved_ms": unmoved_ms,
                "stalled": bool(lag) and unmoved_ms is not None and unmoved_ms >= STALLED_AFTER_MS,
            }
        )
    return told


def _end_offset(broker: Broker, topic: str, partition: int) -> int | None:
    found = broker.topics.by_name.get(topic)
    if found is None or partition >= len(found.partitions):
        return None
    return found.partitions[partition].log.end_offset
