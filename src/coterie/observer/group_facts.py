"""A group's settings, cadence of commits and rate of records, from outside: from what `__consumer_offsets` still has of it, and
of a coterie broker from its explanation too."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from coterie.client import Admin, KafkaError, TopicPartition
from coterie.client.admin.group_explanation import GroupExplanation, MemberExplanation
from coterie.client.admin.groups import protocol_support
from coterie.client.admin_types import ConsumerGroupDescription, MemberDescription
from coterie.client.connection.cluster import Cluster
from coterie.client.lint.rule import Advice, MemberFacts, ObservedFacts, ProtocolSupport
from coterie.client.settings.settings import client_settings
from coterie.coordinator import events as e
from coterie.coordinator.consumer import events as c
from coterie.observer.group_descriptions import now_ms
from coterie.observer.internal_topics import OFFSETS_TOPIC, ReadRefused, group_past, stored_before
from coterie.observer.machine.known import KnownMember
from coterie.observer.machine.sights import RecordRead
from coterie.text.phrase import Phrase
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.stored.consumer_offsets import MemberMetadata

MOST_RECORDS = 200_000  # offsets of the group's partition: two seconds
RATE_MS = 10 * 60_000  # over how long the rate of records is taken
REPLACED_MS = 60_000  # within which two processes with one group.instance.id fence each other
METRICS = "org.apache.kafka.consumer."  # KIP-714; librdkafka pushes no times between polls
LONGEST_POLL, MEAN_POLL = f"{METRICS}time.between.poll.max", f"{METRICS}time.between.poll.avg"
IDLE_RATIO = f"{METRICS}poll.idle.ratio.avg"  # of the time between two polls, what the client spent in one
UNREAD = Phrase("topic_unread", {"topic": OFFSETS_TOPIC})
NO_EXPLANATION = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_AUTHORIZATION_FAILED)


class KnownGroupNow(NamedTuple):
    """A group's description, with what its coordinator supports and what else is known of it."""

    description: ConsumerGroupDescription
    support: ProtocolSupport
    facts: ObservedFacts


async def known_group(client: dict[str, Any], group: str) -> KnownGroupNow:
    """Of any Kafka. Raises KafkaError, GROUP_ID_NOT_FOUND where there is no such group."""
    explanation: GroupExplanation | None = None
    async with Admin(client) as admin:
        description = await admin.describe_consumer_group(group)
        try:
            explanation = await admin.explain_group(group)
        except KafkaError as error:
            if error.code not in NO_EXPLANATION:
                raise
    cluster = Cluster(client_settings(client))
    try:
        await cluster.refresh([])
        support = await protocol_support(cluster, description, explanation)
    finally:
        cluster.close()
    unread, sights = None, list[RecordRead]()
    try:
        sights = await _past(client, group)
    except ReadRefused:
        unread = str(UNREAD)
    facts = facts_of(sights, description.owners, explanation)
    stable_ms = None if facts.stable_ms is None else max(now_ms() - facts.stable_ms, 0)
    return KnownGroupNow(description, support, replace(facts, unread=unread, stable_ms=stable_ms))


async def _past(client: dict[str, Any], group: str) -> list[RecordRead]:
    """The newest records, and where a generation is not among them the one that compaction has left."""
    sights = await group_past(client, group, MOST_RECORDS)
    if any(isinstance(sight.event, e.GroupStored | c.SubscriptionStored) for sight in sights):
        return sights
    before = [stored async for older in stored_before(client, [group]) for stored in older if stored.group == group]
    return [RecordRead(s.time_ms, group, e.GroupStored(s.value)) for s in before[-1:]] + sights


async def linted(client: dict[str, Any], group: str) -> list[Advice]:
    """What `groups lint` finds, with what the records tell. Raises KafkaError, GROUP_ID_NOT_FOUND for an unknown group."""
    facts = (await known_group(client, group)).facts
    async with Admin(client) as admin:
        return await admin.lint_group(group, facts)


def facts_of(
    sights: Sequence[RecordRead],
    owners: Mapping[TopicPartition, MemberDescription],
    explanation: GroupExplanation | None = None,
) -> ObservedFacts:
    """``sights``: the records of one group, oldest first; ``owners``: each assigned partition with its member. ``stable_ms`` of
    the result is the time of the last generation."""
    explained = {} if explanation is None else {m.member_id: m for m in explanation.members}
    records = _Records()
    for sight in sights:
        records.see(sight)
    known = {member.member_id: KnownMember(_metadata(member)) for member in owners.values()}
    times_ms: dict[str, list[int]] = {}
    for partition, commits in records.commits.items():
        if partition in owners:
            of_owner = times_ms.setdefault(owners[partition].member_id, [])
            of_owner += [time_ms for time_ms, _ in commits if time_ms >= records.stored_ms]
    for member_id, times in times_ms.items():
        for time_ms in sorted(times):
            known[member_id].committed(time_ms)
    ids = known.keys() | records.timeouts_ms.keys() | explained.keys()
    members = {i: _facts(records.timeouts_ms.get(i), known.get(i), explained.get(i)) for i in sorted(ids)}
    generation_ms = records.stored_ms or None
    return ObservedFacts(members, _records_per_s(records.commits.values()), records.replaced(), stable_ms=generation_ms)


def _metadata(member: MemberDescription) -> MemberMetadata:
    return MemberMetadata(member.member_id, member.group_instance_id, member.client_id, member.host, 0, 0)


class _Records:
    """The records of a group so far."""

    def __init__(self) -> None:
        self.timeouts_ms: dict[str, tuple[int | None, int]] = {}  # session (None: the broker's) and rebalance timeout
        self.commits: dict[TopicPartition, deque[tuple[int, int]]] = {}  # time and offset
        self.stored_ms = 0
        self._member_ids: dict[str, str] = {}
        self._replaced: dict[str, list[int]] = {}

    def see(self, sight: RecordRead) -> None:
        match sight.event:
            case e.GroupStored(value):
                self.stored_ms = sight.time_ms
                self.timeouts_ms = {m.member_id: (m.session_timeout, m.rebalance_timeout) for m in value.members}
                for m in value.members:
                    self._instance(m.group_instance_id, m.member_id, sight.time_ms)
            case c.SubscriptionStored(member_id, subscription):
                self.stored_ms = sight.time_ms
                self.timeouts_ms[member_id] = (None, subscription.rebalance_timeout_ms)
                self._instance(subscription.instance_id, member_id, sight.time_ms)
            case c.SubscriptionRemoved(member_id):
                self.timeouts_ms.pop(member_id, None)
            case e.OffsetStored(topic, partition, committed):
                commits = self.commits.setdefault(TopicPartition(topic, partition), deque(maxlen=1_000))
                if not commits or sight.time_ms >= commits[-1][0]:
                    commits.append((sight.time_ms, committed.offset))

    def _instance(self, instance_id: str | None, member_id: str, time_ms: int) -> None:
        if instance_id is None:
            return
        if self._member_ids.get(instance_id, member_id) != member_id:
            self._replaced.setdefault(instance_id, []).append(time_ms)
        self._member_ids[instance_id] = member_id

    def replaced(self) -> dict[str, int]:
        """By group.instance.id: the most often that it came back within a minute."""
        return {
            instance_id: max(sum(0 <= later - at <= REPLACED_MS for later in times) for at in times)
            for instance_id, times in self._replaced.items()
        }


def _facts(
    timeouts_ms: tuple[int | None, int] | None, known: KnownMember | None, explained: MemberExplanation | None
) -> MemberFacts:
    """What the coordinator explains is newer than a record."""
    session_ms, rebalance_ms = timeouts_ms if timeouts_ms is not None else (None, -1)
    gaps = [] if known is None or known.every_ms is None else [b - a for a, b in pairwise(known.commits)]
    pushed = {} if explained is None else {metric.name: metric.value for metric in explained.pushed}
    longest_poll_ms, mean_poll_ms = pushed.get(LONGEST_POLL), pushed.get(MEAN_POLL)
    code_share = 1 - (pushed.get(IDLE_RATIO) or 0.0)
    return MemberFacts(
        (explained.session_timeout_ms if explained is not None else None) or session_ms,
        explained.heartbeat_interval_ms if explained is not None else None,
        (explained.rebalance_timeout_ms if explained is not None else None) or max(rebalance_ms, 0) or None,
        round(median(gaps)) if gaps else None,
        max(gaps) if gaps else None,
        None if longest_poll_ms is None else round(longest_poll_ms),
        None if mean_poll_ms is None else round(mean_poll_ms * code_share),
    )


def _records_per_s(commits: Iterable[Sequence[tuple[int, int]]]) -> float | None:
    """The mean over the partitions, of their last minutes."""
    rates = []
    for of_partition in commits:
        last_ms, last = of_partition[-1]
        first_ms, first = next((t, o) for t, o in of_partition if last_ms - t <= RATE_MS)
        if last_ms > first_ms:
            rates.append(max(last - first, 0) * 1000 / (last_ms - first_ms))
    return sum(rates) / len(rates) if rates else None
