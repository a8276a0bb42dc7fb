"""The stages of consumers and of producers, and all stories of a role, several at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from coterie.certify.client.feeding import Feeder
from coterie.certify.client.history import (
    ClientEvent,
    ClientEventKind,
    ClientFinding,
    DeliveryPromise,
    records_in,
    value_of,
)
from coterie.certify.client.process_guard import ProcessGuard
from coterie.certify.client.stage import GROUP, TOPIC, ClientOutcome, ClientUnderTest, StoryRun
from coterie.certify.client.stories import CONSUMER_STORIES, PRODUCER_STORIES
from coterie.certify.client.story import CONSUMER, PRODUCER, ClientStory
from coterie.certify.client.verdict import ProducerRecords, judge, judge_producer
from coterie.client.blocking import BlockingConsumer

STORIES: dict[str, tuple[ClientStory, ...]] = {CONSUMER: CONSUMER_STORIES, PRODUCER: PRODUCER_STORIES}
AT_ONCE = 5  # records for each partition, or each process, each time
_log = logging.getLogger(__name__)
UNDONE_AT_MOST = 100  # records that a producer is given ahead of its acknowledgements


@dataclass
class ConsumerStoryRun(StoryRun):
    """The stage writes, the program reads."""

    delivery: DeliveryPromise = DeliveryPromise.AT_LEAST_ONCE
    _feeder: Feeder | None = None
    _making: threading.Lock = field(default_factory=threading.Lock)

    @property
    def feeder(self) -> Feeder:
        """Made with the first record."""
        with self._making:
            if self._feeder is None:
                self._feeder = Feeder(self.broker.bootstrap_servers, TOPIC, self.story.partitions)
            return self._feeder

    def feed(self) -> None:
        self.feeder.feed(AT_ONCE)

    def take(self, process: int, line: str) -> None:
        """The records that the line names are processed."""
        for partition, offset in records_in(line):
            event = ClientEvent(
                self.now_s(), ClientEventKind.PROCESSED, process=process, partition=partition, offset=offset
            )
            self.history.events.append(event)
            self.moved += 1

    def is_done(self) -> bool:
        """All is processed, and committed."""
        self._know_ends()
        with self._lock:
            events = list(self.history.events)
        processed = {(e.partition, e.offset) for e in events if e.kind is ClientEventKind.PROCESSED}
        committed = {partition: offset for (_, partition), offset in self.broker.committed(GROUP).items()}
        for partition in self.history.ends:
            required = self.history.required(partition)
            if any((partition, offset) not in processed for offset in required):
                return False
            if required and committed.get(partition, 0) <= required[-1]:
                return False
        self.history.committed = committed
        return True

    def _know_ends(self) -> None:
        self.history.ends, self.history.optional = dict(self.feeder.ends), set(self.feeder.optional)

    def judged(self) -> list[ClientFinding]:
        self._know_ends()
        self.feeder.close()
        return judge(self.history, self.delivery)

    def transaction(self, end: str) -> None:
        self.feeder.transaction(end)

    def large(self) -> None:
        self.feeder.large()

    def trim(self) -> None:
        self.feeder.trim()

    def grow(self, partitions: str) -> None:
        self.feeder.grow(int(partitions))


@dataclass
class ProducerStoryRun(StoryRun):
    """The program has lines on its standard input, sends each, and prints each that is acknowledged."""

    delivery: DeliveryPromise = DeliveryPromise.AT_LEAST_ONCE
    takes_lines = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.records = ProducerRecords()
        self._of_process: dict[int, list[str]] = {}

    def feed(self) -> None:
        for process in list(self.processes.values()):
            undone = len(self.records.given) - len(self.records.acknowledged) - len(self.records.excused)
            for _ in range(AT_ONCE if not process.is_frozen and undone < UNDONE_AT_MOST else 0):
                value = value_of(0, len(self.records.given))
                if process.write(value):
                    self.records.given.append(value)
                    self._of_process.setdefault(process.number, []).append(value)

    def take(self, process: int, line: str) -> None:
        if line.strip():
            self.records.acknowledged.setdefault(line.strip(), self.now_s())
            self.moved += 1

    def kill(self, number: str) -> None:
        """What it had and did not acknowledge is nobody's."""
        super().kill(number)
        mine = self._of_process.pop(int(number), [])
        self.records.excused |= {value for value in mine if value not in self.records.acknowledged}

    def is_done(self) -> bool:
        return all(v in self.records.acknowledged or v in self.records.excused for v in self.records.given)

    def judged(self) -> list[ClientFinding]:
        with BlockingConsumer({"bootstrap.servers": self.broker.bootstrap_servers}) as reader:
            partitions = [(TOPIC, partition) for partition in range(self.story.partitions)]
            reader.assign(partitions)
            reader.seek_to_beginning(partitions)
            ends = reader.end_offsets(partitions)
            while any(reader.position(tp) < ends[tp] for tp in ends):
                for (_, partition), batch in reader.poll(1_000).items():
                    values = [(record.value or b"").decode(errors="replace") for record in batch]
                    self.records.log.setdefault(partition, []).extend(values)
        return judge_producer(self.records, self.history, self.delivery)


def run_stories(
    stories: Sequence[ClientStory],
    client: ClientUnderTest,
    delivery: DeliveryPromise,
    jobs: int,
    progress: Callable[[ClientOutcome], None] = lambda _: None,
) -> list[ClientOutcome]:
    """The outcome of each story, in their order; so many ``jobs`` run at a time, each with a broker of its own. A story
    whose stage, not its client, has run out of time runs once more."""

    running: list[StoryRun] = []

    def run(story: ClientStory) -> ClientOutcome:
        try:
            outcome = stage_of(story).run()
        except TimeoutError as error:  # of the stage itself, not of the client: a machine with too much other work
            _log.warning("%s: %s; the story runs again", story.name, error)
            outcome = stage_of(story).run()
        progress(outcome)
        return outcome

    def stage_of(story: ClientStory) -> StoryRun:
        stage_class = ConsumerStoryRun if story.role == CONSUMER else ProducerStoryRun
        stage = stage_class(story, client, guard, delivery=delivery)
        running.append(stage)
        return stage

    with ProcessGuard() as guard, ThreadPoolExecutor(jobs) as pool:
        try:
            return list(pool.map(run, stories))
        except BaseException:  # an interruption among them
            pool.shutdown(wait=False, cancel_futures=True)
            for stage in running:
                stage.abandon()
            raise
