"""What becomes of the records that a share group gives up: dead letters on their way to a topic (Kafka's ShareGroupDLQManager),
by the steps of `coterie.share.dead_letters.bury`, at this broker or at the leader of the topic's partition; and lines of the
journal about records that are archived although nobody has accepted them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.peers.connections import PeerRequests
from coterie.broker.process.scheduling import Clock, Scheduler
from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.groups import ShareGroupSettings
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replicas import ReplicaEffects
from coterie.broker.storage.topic import Partition, Topic, code_of
from coterie.broker.storage.topics import Topics
from coterie.coordinator.journal.line import JournalLine
from coterie.log.reading import read_visible
from coterie.records.batch import BatchError
from coterie.records.encoding import encode_batch
from coterie.replication.states import NO_LEADER, ReplicaError
from coterie.share.dead_letters import (
    PAUSES,
    READ_BYTES,
    REJECTED,
    AppendLetters,
    Copied,
    Copying,
    CreateTopic,
    DeadLetterTopic,
    DeadRecords,
    LetterSource,
    Look,
    PauseBurial,
    ReadRecords,
    bury,
)
from coterie.share.partition import Ended
from coterie.share.states import RecordCause
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.logs.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

PRODUCE_VERSION = 8  # inter.broker.protocol.version 2.6
TIMEOUT_MS = 30_000
ENABLE = "errors.deadletterqueue.group.enable"
_CONFIGS = {ENABLE: "true", "message.timestamp.type": "CreateTime"}
Responded = Callable[[ErrorCode], None]
_ARCHIVED = "records_archived"
ClientId = Callable[[str], str]  # of a member; "" where it is not known
_KINDS = {
    RecordCause.RELEASED: "deliveries_spent",
    RecordCause.EXPIRED: "deliveries_spent",
    RecordCause.REJECTED: "record_rejected",
}


class LetterServices(NamedTuple):
    """What the queue uses of its broker."""

    settings: BrokerSettings
    topics: Topics
    view: ClusterView
    clock: Clock
    scheduler: Scheduler
    flusher: Flusher
    effects: ReplicaEffects


class DeadLetterQueue:
    """``settings_of``: of a group, now. ``peers`` and ``create_topic`` are None for a broker alone; the latter begins to create
    a topic with settings, as `TopicAdministration.create_soon`."""

    def __init__(self, services: LetterServices, settings_of: Callable[[str], ShareGroupSettings]) -> None:
        self.services, self._settings_of = services, settings_of
        self.peers: PeerRequests | None = None
        self.create_topic: Callable[[str, Mapping[str, str]], ErrorCode] | None = None
        self._rng = random.Random(services.view.node_id)

    def bury(self, group_id: str, partition: Partition, records: DeadRecords, done: Callable[[str], None]) -> None:
        """``done`` is called once, perhaps before this returns: with why not all records have letters, or "" """
        _Burial(self, LetterSource(group_id, partition.topic, partition.index), partition, records, done).resume(None)

    def topic_of(self, source: LetterSource) -> DeadLetterTopic:
        """The group's dead letter topic as it is now, for the letters of one partition."""
        settings, group = self.services.settings, self._settings_of(source.group_id)
        topic = self.services.topics.by_name.get(group.dead_letter_topic)
        known = DeadLetterTopic(
            group.dead_letter_topic,
            prefix=settings.share.errors_deadletterqueue_topic_name_prefix,
            creates=settings.share.errors_deadletterqueue_auto_create_topics_enable,
            copies=group.copies_dead_letters,
        )
        if topic is None:
            return known
        return replace(
            known,
            exists=True,
            is_enabled=settings.topic_value(ENABLE, topic.configs) is True,
            partitions=self._led_partitions(topic, source),
            max_message_bytes=topic.partitions[0].log.config.max_message_bytes if topic.partitions else 0,
        )

    def _led_partitions(self, topic: Topic, source: LetterSource) -> int:
        count = len(topic.partitions)
        if not count or (
            self.services.topics.in_cluster and self.leader(topic.name, source.partition % count) == NO_LEADER
        ):
            return 0
        return count

    def leader(self, topic: str, index: int) -> int:
        """The broker that leads a partition in the cluster; NO_LEADER where it does not live."""
        view = self.services.view
        state = view.states.get((topic, index))
        return NO_LEADER if state is None or state.leader not in view.live else state.leader

    def create(self, name: str) -> ErrorCode:
        """Creates the topic, or begins to."""
        topics, settings = self.services.topics, self.services.settings.current
        if name in topics.by_name:
            return ErrorCode.TOPIC_ALREADY_EXISTS
        if topics.in_cluster:
            code = ErrorCode.LEADER_NOT_AVAILABLE if self.create_topic is None else self.create_topic(name, _CONFIGS)
            return ErrorCode.NONE if code == ErrorCode.LEADER_NOT_AVAILABLE else code
        try:
            topics.check_new_name(name)
            topics.create(name, settings.num_partitions, dict(_CONFIGS))
        except Refusal as refusal:
            return refusal.code
        return ErrorCode.NONE

    def pause_s(self, failures: int) -> float:
        """Before the next attempt."""
        return PAUSES.pause_ms(failures, self._rng.uniform(-1, 1)) / 1000


class _Burial:
    """One burial, carried out step by step."""

    def __init__(
        self,
        queue: DeadLetterQueue,
        source: LetterSource,
        partition: Partition,
        records: DeadRecords,
        done: Callable[[str], None],
    ) -> None:
        self._queue, self._source, self._partition, self._done = queue, source, partition, done
        self._steps = bury(source, records)

    def resume(self, result: Any) -> None:
        """Goes on with the result of a step, until one takes time."""
        services = self._queue.services
        while True:
            try:
                effect = self._steps.send(result)
            except StopIteration as end:
                self._done(end.value)
                return
            match effect:
                case Look():
                    result = self._queue.topic_of(self._source)
                case CreateTopic():
                    result = self._queue.create(effect.name)
                case ReadRecords():
                    result = self._read(effect)
                case PauseBurial():
                    services.scheduler.call_later(self._queue.pause_s(effect.failures), partial(self.resume, None))
                    return
                case AppendLetters():
                    self._append(effect)
                    return

    def _read(self, effect: ReadRecords) -> Copied:
        copying = Copying(effect.first, effect.last, effect.max_bytes)
        try:
            while not copying.is_done:
                before = copying.next
                copying.take(read_visible(self._partition.log, before, READ_BYTES, at_least_one=True))
                if copying.next == before and not copying.is_full:
                    return copying.result(gave_up=True)
        except (Refusal, OSError, BatchError):
            return copying.result(gave_up=True)
        return copying.result()

    def _append(self, effect: AppendLetters) -> None:
        services = self._queue.services
        now_ms = services.clock.now_ms()
        batch = encode_batch([(now_ms, *letter) for letter in effect.letters])
        # Steps go on later: a burial of many batches would else be as many calls deep.
        responded = _Once(services.scheduler, self.resume)
        if not services.topics.in_cluster:
            self._append_here(effect, batch, now_ms, responded.end)
            return
        leader = self._queue.leader(effect.topic, effect.partition)
        responded.end_after(TIMEOUT_MS)
        if leader == services.view.node_id:
            self._append_here(effect, batch, now_ms, responded.end)
        elif leader == NO_LEADER or self._queue.peers is None:
            responded.end(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            rows = [TopicProduceData(effect.topic, partition_data=[PartitionProduceData(effect.partition, batch)])]
            request = ProduceRequest(None, -1, TIMEOUT_MS, rows)
            self._queue.peers.send(
                leader, request, ProduceResponse, PRODUCE_VERSION, lambda response: responded.end(_code_of(response))
            )

    def _append_here(self, effect: AppendLetters, batch: bytes, now_ms: int, responded: Responded) -> None:
        services = self._queue.services

        def decided(error: ReplicaError | None) -> None:
            responded(ErrorCode.NONE if error is None else code_of(error))

        try:
            partition = services.topics.partition(effect.topic, effect.partition)
            services.effects.append(partition, lambda log: log.append(batch, now_ms), now_ms, decided)
        except Refusal as refusal:
            responded(refusal.code)
            return
        except OSError:
            responded(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        partition.appended()
        if services.topics.in_cluster:
            return
        if partition.sync_due():
            services.flusher.after_sync(partition.log, partial(responded, ErrorCode.NONE))
        else:
            responded(ErrorCode.NONE)


def _code_of(response: ProduceResponse | None) -> ErrorCode:
    rows = [] if response is None else [row for topic in response.responses for row in topic.partition_responses]
    if response is None:
        return ErrorCode.NETWORK_EXCEPTION
    return error_of(rows[0].error_code) if rows else ErrorCode.UNKNOWN_SERVER_ERROR


class _Once:
    """The result of an append: the first counts, and is passed on later."""

    def __init__(self, scheduler: Scheduler, responded: Responded) -> None:
        self._scheduler, self._responded = scheduler, responded
        self._is_over = False

    def end(self, code: ErrorCode) -> None:
        if not self._is_over:
            self._is_over = True
            self._scheduler.call_soon(partial(self._responded, code))

    def end_after(self, timeout_ms: int) -> None:
        """With REQUEST_TIMED_OUT, where nothing has ended it by then."""
        self._scheduler.call_later(timeout_ms / 1000, partial(self.end, ErrorCode.REQUEST_TIMED_OUT))


def archived_lines(
    group_id: str, source: tuple[str, int], ended: Iterable[Ended], client_id: ClientId, now_ms: int
) -> list[JournalLine]:
    """A line for each range of records that were rejected, or delivered as often as they may be. The leader of a partition does
    not know the group's epoch and state."""
    return [
        _line(now_ms, group_id, _KINDS[each.cause], each.member_id, _text(source, each, client_id, "archived"))
        for each in ended
        if each.cause in _KINDS
    ]


def buried_line(
    group_id: str,
    source: tuple[str, int],
    records: DeadRecords,
    client_id: ClientId,
    burial: tuple[str, str],
    now_ms: int,
) -> JournalLine:
    """Of records that went to the dead letter topic before; ``burial``: its name, and why letters are missing, or ""."""
    topic, problem = burial
    kind = "record_rejected" if records.reason == REJECTED else "deliveries_spent"
    text = _text(source, records, client_id, f"in the dead letter topic {topic}" if not problem else "archived")
    if problem:
        text += f" without a dead letter: {problem}"
    return _line(now_ms, group_id, kind, records.member_id, text)


def _line(now_ms: int, group_id: str, kind: str, member_id: str, reason: str) -> JournalLine:
    causes = [{"kind": kind, "reason": reason}]
    return JournalLine(now_ms, group_id, -1, _ARCHIVED, "", "", causes=causes, member=member_id or None)


def _text(source: tuple[str, int], ended: Ended | DeadRecords, client_id: ClientId, end: str) -> str:
    one = ended.first == ended.last
    records = f"record {ended.first}" if one else f"records {ended.first} to {ended.last}"
    times = "once" if ended.delivery_count == 1 else f"{ended.delivery_count} times"
    last = f", last to {_member(ended.member_id, client_id)}," if ended.member_id else ""
    verb = ("was", "is") if one else ("were", "are")
    return f"{records} of {source[0]}-{source[1]} {verb[0]} delivered {times}{last} and {verb[1]} {end}"


def _member(member_id: str, client_id: ClientId) -> str:
    name = client_id(member_id)
    return f"{name} ({member_id})" if name else member_id
