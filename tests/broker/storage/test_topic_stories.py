"""Generated stories of a folder of topics beside a model of it: topics are created, extended, deleted, made again under the
same name, compacted and retained, a step of one between the steps of others, and the process is killed or stopped at any
moment.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import pytest

from coterie.broker.settings import BrokerSettings
from coterie.broker.storage import topics as topics_module
from coterie.broker.storage.checkpoints import LogCheckpoints
from coterie.broker.storage.topic import Partition, Topic
from coterie.broker.storage.topics import Topics
from coterie.log.compaction import Cleaned, clean, plan, swap
from coterie.log.filesystem import MemoryFileSystem
from coterie.log.partition_log import PartitionLog
from coterie.log.retention import delete_records, retain
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.records.encoding import encode_batch
from coterie.wire.errors import Refusal

NAMES = ("a", "b")
KEYS = (b"1", b"2", b"3")
POLICIES = ("delete", "compact", "compact,delete")
Kept = dict[int, tuple[bytes, bytes]]  # key and value by offset


@dataclass
class PartitionModel:
    """What was acknowledged: ``records`` by offset, and where the log begins and ends."""

    records: Kept = field(default_factory=dict)
    start: int = 0
    end: int = 0

    def newest(self) -> Kept:
        """The records that compaction keeps."""
        last = {key: offset for offset, (key, _) in self.records.items()}
        return {offset: self.records[offset] for offset in last.values() if offset >= self.start}


@dataclass
class Story:
    """One folder, the topics in it, and what they should be. ``work``: deletions and extensions under way; ``cleaned``:
    compactions whose files have not been exchanged yet; ``compacted``: the topics that may have been compacted."""

    rng: random.Random
    fs: MemoryFileSystem = field(default_factory=MemoryFileSystem)
    model: dict[str, list[PartitionModel]] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    compacted: set[str] = field(default_factory=set)
    work: list[tuple[Generator[None, None, object], Callable[[], None]]] = field(default_factory=list)
    cleaned: list[tuple[PartitionLog, Cleaned]] = field(default_factory=list)
    values: int = 0
    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.topics = Topics(self.fs, BrokerSettings())

    # -- steps ------------------------------------------------------------------------------------------------------------

    def create(self) -> None:
        name, policy = self.rng.choice(NAMES), self.rng.choice(POLICIES)
        count = self.rng.randint(1, 3)
        try:
            self.topics.create(name, count, {"cleanup.policy": policy, "segment.bytes": "200"})
        except Refusal:
            return  # it exists, or is being deleted
        self.model[name], self.policies[name] = [PartitionModel() for _ in range(count)], policy
        self.compacted = self.compacted - {name} | ({name} if policy != "delete" else set())

    def configure(self) -> None:
        topic = self._topic()
        if topic is not None:
            policy = self.policies[topic.name] = self.rng.choice(POLICIES)
            self.topics.configure(topic, topic.configs | {"cleanup.policy": policy})
            self.compacted |= {topic.name} if policy != "delete" else set()

    def delete(self) -> None:
        """While one of its logs is compacted."""
        topic = self._topic()
        if topic is not None:
            self._clean(self.rng.choice(topic.partitions))
            self._begin(self.topics.deleting(topic), lambda: None)

    def extend(self) -> None:
        topic = self._topic()
        if topic is None:
            return
        count = len(topic.partitions) + self.rng.randint(1, 3)

        def extended() -> None:
            known = self.model.get(topic.name, [])
            known += [PartitionModel() for _ in range(count - len(known))]

        self._begin(self.topics.adding_partitions(topic, count), extended)

    def go_on(self) -> None:
        """One step of a deletion or an extension."""
        if self.work:
            self._go_on(self.rng.randrange(len(self.work)))

    def _begin(self, work: Generator[None, None, object], done: Callable[[], None]) -> None:
        """The first step comes at once, as it does in a handler."""
        self.work.append((work, done))
        self._go_on(-1)

    def _go_on(self, slot: int) -> None:
        work, done = self.work[slot]
        before = dict(self.topics.by_name)
        try:
            next(work)
        except StopIteration:
            done()
            del self.work[slot]
        except Refusal:
            del self.work[slot]
        for name in before.keys() - self.topics.by_name.keys():
            del self.model[name], self.policies[name]

    def append(self) -> None:
        chosen = self._partition()
        if chosen is None:
            return
        partition, model = chosen
        for _ in range(self.rng.randint(1, 4)):
            self.values += 1
            key, value = self.rng.choice(KEYS), b"%d" % self.values
            partition.log.append(encode_batch([(self.now_ms, key, value, ())]), self.now_ms)
            model.records[model.end] = (key, value)
            model.end += 1

    def delete_records(self) -> None:
        chosen = self._partition()
        if chosen is None or self.policies[chosen[0].topic] == "compact":
            return
        partition, model = chosen
        model.start = delete_records(partition.log, self.rng.randint(model.start, model.end))
        self.topics.save_start_offsets()

    def retain(self) -> None:
        """Of all topics, as the broker's periodic task."""
        self.now_ms += 1_000
        for topic in self.topics.by_name.values():
            for partition, model in zip(topic.partitions, self.model[topic.name], strict=True):
                partition.log.config.retention_bytes = 500
                retain(partition.log, self.now_ms)
                model.start = max(model.start, partition.log.log_start_offset)
        self.topics.save_start_offsets()

    def compact(self) -> None:
        chosen = self._partition()
        if chosen is not None:
            self._clean(chosen[0])

    def _clean(self, partition: Partition) -> None:
        if self.policies[partition.topic] == "delete":
            return
        wanted = plan(partition.log, self.now_ms, force=True)
        if wanted is not None:
            self.cleaned.append((partition.log, clean(wanted)))

    def exchange(self) -> None:
        """The end of a compaction, of a topic that may be gone by now."""
        if self.cleaned:
            swap(*self.cleaned.pop())
            self.topics.save_cleaned_offsets()

    def kill(self) -> None:
        self._start_anew()

    def stop(self) -> None:
        self.topics.close()
        self._start_anew()

    # -- what they share --------------------------------------------------------------------------------------------------

    def _topic(self) -> Topic | None:
        present = sorted(self.topics.by_name)
        return self.topics.by_name[self.rng.choice(present)] if present else None

    def _partition(self) -> tuple[Partition, PartitionModel] | None:
        topic = self._topic()
        if topic is None:
            return None
        index = self.rng.randrange(len(topic.partitions))
        return topic.partitions[index], self.model[topic.name][index]

    def _start_anew(self) -> None:
        self.work.clear()
        self.cleaned.clear()
        self.topics = Topics(self.fs, BrokerSettings())
        self.topics.load()
        self.check()

    def check(self) -> None:
        """The topics are those of the model, with all that it has of their records."""
        assert {n: len(t.partitions) for n, t in self.topics.by_name.items()} == {
            name: len(partitions) for name, partitions in self.model.items()
        }
        damages = [f for f in self.topics.findings if "no topic in" not in str(f)]
        assert not damages, f"a start repaired {damages}"
        for name, topic in self.topics.by_name.items():
            for partition, model in zip(topic.partitions, self.model[name], strict=True):
                log = partition.log
                assert (log.log_start_offset, log.end_offset) == (model.start, model.end), log.directory
                kept = {offset: record for offset, record in records_of(log).items() if offset >= model.start}
                assert kept.items() <= model.records.items(), log.directory
                expected = model.newest() if name in self.compacted else model.records
                assert {o for o in expected if o >= model.start} <= kept.keys(), log.directory


def records_of(log: PartitionLog) -> Kept:
    """All that a reader gets from the log's start on."""
    kept: Kept = {}
    offset = log.log_start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1_000_000)
        for position, header in batches(data):
            kept |= {r.offset: (r.key or b"", r.value or b"") for r in decode_records(data, position, header)}
            offset = max(offset, header.last_offset + 1)
        if not data:
            break
    return kept


STEPS: dict[Callable[[Story], None], int] = {
    Story.append: 10,
    Story.go_on: 8,
    Story.create: 8,
    Story.delete: 2,
    Story.extend: 2,
    Story.delete_records: 2,
    Story.compact: 2,
    Story.exchange: 2,
    Story.retain: 1,
    Story.configure: 1,
    Story.kill: 1,
    Story.stop: 1,
}


def run_story(seed: int, steps: int = 150) -> int:
    """Raises AssertionError where the topics are not those of the model; returns how many records were appended."""
    story = Story(random.Random(seed))
    for step in story.rng.choices([*STEPS], [*STEPS.values()], k=steps):
        step(story)
    story.kill()
    return story.values


def test_fresh_stories() -> None:
    assert sum(run_story(seed) for seed in range(100)) > 5_000, "too little is appended to say anything"


def checkpoints_outlive_their_topic(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogCheckpoints, "forget", lambda checkpoints, directories: None)


def a_deleted_log_is_compacted(patch: pytest.MonkeyPatch) -> None:
    exchanged = swap

    def open_for_ever(log: PartitionLog, cleaned: Cleaned) -> bool:
        log.is_closed = False
        return exchanged(log, cleaned)

    patch.setitem(globals(), "swap", open_for_ever)


def a_deletion_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    deleting = Topics.deleting

    def at_once(topics: Topics, topic: Topic) -> Generator[None, None, None]:
        topics._creating.discard(topic.name)
        yield from deleting(topics, topic)

    patch.setattr(topics_module.Topics, "deleting", at_once)


@pytest.mark.parametrize(
    "switch", [checkpoints_outlive_their_topic, a_deleted_log_is_compacted, a_deletion_does_not_wait]
)
def test_each_rule_is_seen_when_it_is_switched_off(
    switch: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(monkeypatch)
    with pytest.raises((AssertionError, FileNotFoundError, KeyError)):
        sum(run_story(seed) for seed in range(200, 600))  # one of them compacts a log just as it is deleted
