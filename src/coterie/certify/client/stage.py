"""One story around the user's processes: a broker of its own with its faults, the processes, and what is seen of both."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coterie.certify.client.history import ClientEvent, ClientEventKind, ClientFinding, ClientHistory
from coterie.certify.client.observed_faults import ObservedFaults, refused_request
from coterie.certify.client.process_guard import ProcessGuard
from coterie.certify.client.processes import END_S, UserProcess
from coterie.certify.client.story import CONSUMER, ClientStory
from coterie.coordinator.journal.line import JournalLine
from coterie.testing import LocalBroker
from coterie.testing.faults import FaultRule

TOPIC, GROUP = "certified", "certified-group"
COMPANION = 9  # the number of the process of `companion`
LOOK_EVERY_S, FEED_EVERY_S = 0.02, 0.1
MEMBERS_S = 20.0  # for all processes to be members, at the beginning
MET_S = 8.0  # for a request that a fault waits for, at the end
BEGIN_PATIENCES = 4  # for the first request of a process that was started: a machine with other work starts it late
SILENT_S = 4.5  # a member that sends nothing for so long has stopped its heartbeats, which come every 3 s by default
BURY_S = 4.0
STARTED, ENOUGH = 20, 40  # records before the first step and after the last one
MESSAGE_BYTES = 4_000_000
RIGHT, WRONG, NOT_MET = "right", "wrong", "not met"


class StandsStill(Exception):
    """Nothing has moved for the story's patience."""


@dataclass(frozen=True, slots=True)
class ClientOutcome:
    """How a story ended. ``detail`` of one that is not met: what never came."""

    story: ClientStory
    outcome: str
    findings: Sequence[ClientFinding] = ()
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ClientUnderTest:
    """What every story runs with: the user's ``command``, a ``folder`` for the processes' standard errors, and how long the
    client may stand still."""

    command: Sequence[str]
    folder: Path
    patience_s: float


@dataclass
class StoryRun:
    """Of one story; a subclass has what differs between consumers and producers. ``feed`` is called every `FEED_EVERY_S`."""

    story: ClientStory
    client: ClientUnderTest
    guard: ProcessGuard
    history: ClientHistory = field(default_factory=ClientHistory)
    takes_lines = False

    def __post_init__(self) -> None:
        self.processes: dict[int, UserProcess] = {}
        self.rules: list[FaultRule] = []
        self.faults = ObservedFaults(TOPIC, self._note)
        self.connections_before = 0  # how many the program had opened when a process was last started
        self.is_silent = False
        self.moved = 0  # records processed or acknowledged so far
        self._lock = threading.RLock()
        self._feeding = threading.Lock()
        self._down: int | None = None
        self._over = threading.Event()
        self._start_s = time.monotonic()

    # -- of consumers and of producers ---------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Gives the processes more to do."""
        raise NotImplementedError

    def take(self, process: int, line: str) -> None:
        """A process has printed that line."""
        raise NotImplementedError

    def is_done(self) -> bool:
        """Whether all that was given is done."""
        raise NotImplementedError

    def judged(self) -> list[ClientFinding]:
        """What is wrong."""
        raise NotImplementedError

    # -- the course ----------------------------------------------------------------------------------------------------------

    def run(self) -> ClientOutcome:
        """Runs the story once."""
        self.broker = LocalBroker(brokers=self.story.brokers)
        self.broker.faults = self.faults
        started_ms = time.time() * 1000
        with self.broker:
            self.broker.create_topic(TOPIC, self.story.partitions, {"max.message.bytes": str(MESSAGE_BYTES)})
            with self._threads():
                try:
                    self._run_steps()
                except StandsStill as still:
                    self.history.stuck = str(still)
                finally:
                    self._read()
                    self.history.end_s = self.now_s()
                    for process in self.processes.values():
                        process.close()
            self.history.journal = [_journal(line, started_ms) for line in self.broker.journal if line.group == GROUP]
            findings = self.judged()
        unmet = sorted({refused_request(rule) for rule in self._unmet()})
        seconds = time.monotonic() - self._start_s
        if findings or not unmet:
            return ClientOutcome(self.story, WRONG if findings else RIGHT, findings, "", seconds)
        return ClientOutcome(self.story, NOT_MET, (), f"the client sent no {', '.join(unmet)}", seconds)

    def abandon(self) -> None:
        """The story ends as soon as it can, in whatever step it is."""
        self._over.set()

    def _run_steps(self) -> None:
        for number in range(self.story.processes):
            self.start(number)
        self._until_moved(STARTED, "start")
        self.joined(self.story.processes if self.story.role == CONSUMER else 0)
        for action, arguments in self.story.actions():
            step = " ".join([action, *arguments])
            self.history.steps.append((self.now_s(), step))
            if action == "read":
                self._until_moved(int(arguments[0]), step)
            else:
                getattr(self, action)(*arguments)
        self._wait_for(lambda: not self._unmet(), MET_S)
        if not self.is_silent:
            self._until_moved(ENOUGH, "the end")
        self.silence()
        self._until(self.is_done, "the end")

    def _until_moved(self, count: int, step: str) -> None:
        wanted = self.moved + count
        self._until(lambda: self.moved >= wanted, step)

    def _until(self, done: Callable[[], bool], step: str) -> None:
        """Raises StandsStill once nothing has moved for the patience, which begins with the first request of a process that was
        started, or no process is left."""
        seen, since = self._progress(), time.monotonic()
        while not done():
            time.sleep(LOOK_EVERY_S)
            if self._progress() != seen:
                seen, since = self._progress(), time.monotonic()
            none_left = all(process.exit_code() is not None for process in self.processes.values())
            patience_s = self.client.patience_s * (1 if self._has_begun() else BEGIN_PATIENCES)
            limit_s = LOOK_EVERY_S * 10 if none_left else patience_s
            if self._over.is_set() or time.monotonic() - since > limit_s:
                raise StandsStill(step)

    def _progress(self) -> object:
        return len(self.history.events), self.moved, self._has_begun()

    def _has_begun(self) -> bool:
        """Whether the program has opened a connection since a process was last started."""
        return len(self.faults.ports) > self.connections_before

    def _wait_for(self, done: Callable[[], bool], limit_s: float) -> bool:
        deadline_s = time.monotonic() + limit_s
        while not done():
            if self._over.is_set() or time.monotonic() > deadline_s:
                return False
            time.sleep(LOOK_EVERY_S)
        return True

    def _unmet(self) -> list[FaultRule]:
        return [rule for rule in self.rules if rule.times == self._times[id(rule)]]

    @contextlib.contextmanager
    def _threads(self) -> Iterator[None]:
        def every(seconds: float, work: Callable[[], None]) -> threading.Thread:
            def loop() -> None:
                while not self._over.wait(seconds):
                    try:
                        work()
                    except RuntimeError:
                        if not self._over.is_set():
                            raise  # else its clients are closed: the story ended while it fed

            thread = threading.Thread(target=loop, daemon=True)
            thread.start()
            return thread

        threads = [every(LOOK_EVERY_S, self._read), every(FEED_EVERY_S, self._feed)]
        self._times: dict[int, int] = {}
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(END_S)

    def _feed(self) -> None:
        with self._feeding:
            if not self.is_silent and self.processes:
                self.feed()

    def now_s(self) -> float:
        """Since the story's start."""
        return time.monotonic() - self._start_s

    # -- what is seen --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """What every process has printed goes into the history, and the end of one that received no signal to end."""
        with self._lock:
            for process in list(self.processes.values()):
                has_ended = process.exit_code() is not None
                for line in process.lines():
                    self.take(process.number, line)
                if has_ended and not process.is_ending:
                    process.is_ending = True
                    name = "the other consumer" if process.number == COMPANION else f"process {process.number}"
                    text = f"{name} ended by itself with exit code {process.exit_code()}"
                    event = ClientEvent(
                        self.now_s(), ClientEventKind.ENDED, f"{text}: {process.last_words()}", process.number
                    )
                    self.history.events.append(event)

    def _note(self, kind: ClientEventKind, partition: int, offset: int) -> ClientEvent:
        with self._lock:
            self._read()
            event = ClientEvent(self.now_s(), kind, partition=partition, offset=offset)
            self.history.events.append(event)
            return event

    # -- the steps, by the names of `ACTIONS` --------------------------------------------------------------------------------

    def start(self, number: int | str, command: Sequence[str] = ()) -> None:
        """A process with that number, of the user's program or of another command."""
        old = self.processes.get(int(number))
        if old is not None:
            old.close()
        values = {"bootstrap": self.broker.bootstrap_servers, "topic": TOPIC, "group": GROUP}
        log = self.client.folder / f"{self.story.name}-{number}.log"
        program = command or self.client.command
        self.connections_before = len(self.faults.ports)
        process = UserProcess(program, int(number), values, log, self.guard, takes_lines=self.takes_lines)
        with self._lock:
            self.processes[int(number)] = process

    def kill(self, number: str) -> None:
        self.processes[int(number)].kill()
        self._read()

    def stop(self, number: str) -> None:
        """SIGTERM, and SIGKILL for one that does not end."""
        process = self.processes[int(number)]
        process.terminate()
        self._wait_for(lambda: process.exit_code() is not None, END_S)
        self.kill(number)

    def freeze(self, number: str) -> None:
        self.processes[int(number)].freeze()

    def thaw(self, number: str) -> None:
        self.processes[int(number)].thaw()
        with self._lock:
            self.history.events.append(ClientEvent(self.now_s(), ClientEventKind.THAWED, process=int(number)))

    def companion(self, protocol: str) -> None:
        """Returns once it is a member."""
        command = [
            sys.executable,
            "-m",
            "coterie.certify.client.companion",
            "{bootstrap}",
            "{group}",
            "{topic}",
            protocol,
        ]
        before = len(self.broker.members(GROUP))
        self.start(COMPANION, command)
        self.joined(before + 1)

    def joined(self, members: int | str) -> None:
        """Goes on without them after a time, as for a program that joins no group."""
        self._wait_for(lambda: len(self.broker.members(GROUP)) >= int(members), MEMBERS_S)

    def dismiss(self) -> None:
        self.stop(str(COMPANION))

    def bury(self) -> None:
        """Goes on where every member is heard, as after an orderly end."""

        def silent() -> list[str]:
            limit_s = time.monotonic() - SILENT_S
            return [m for m in self.broker.members(GROUP) if self.faults.heard.get(m, 0.0) < limit_s]

        self._over.wait(SILENT_S)
        self._wait_for(lambda: bool(silent()) or not self.broker.members(GROUP), BURY_S)
        self._expire(silent())

    def forget(self) -> None:
        """Once every fault was met: the client has then had its time to use the id."""
        self._wait_for(lambda: not self._unmet(), MEMBERS_S)
        self._over.wait(SILENT_S)
        self._expire([member_id for member_id in self.faults.reserved if member_id not in self.faults.heard])

    def expire(self) -> None:
        self._expire(list(self.broker.members(GROUP)))

    def _expire(self, members: Sequence[str]) -> None:
        for member_id in members:
            with contextlib.suppress(LookupError):
                self.broker.expire(GROUP, member_id)

    def wait(self, seconds: str) -> None:
        self._over.wait(float(seconds))

    def _rule(self, rule: FaultRule, times: int) -> FaultRule:
        self._times[id(rule)] = times
        self.rules.append(rule)
        return rule

    def fail(self, api: str, code: str, times: str) -> None:
        self._rule(self.broker.fail(api, code, times=int(times)), int(times))

    def delay(self, api: str, ms: str, times: str) -> None:
        self._rule(self.broker.delay(api, int(ms), times=int(times)), int(times))

    def cut(self, api: str, times: str) -> None:
        self._rule(self.broker.cut(api, times=int(times)), int(times))

    def lose(self, api: str) -> None:
        """In a thread: the request may only come with a later step."""
        rule = self._rule(self.broker.lose_response(api), 1)

        def drop_then() -> None:
            if self._wait_for(lambda: rule.times == 0 or self._over.is_set(), 60.0) and not self._over.is_set():
                time.sleep(0.2)
                self.drop()

        threading.Thread(target=drop_then, daemon=True).start()

    def drop(self) -> None:
        self.broker.drop_connections()

    def move(self) -> None:
        self.broker.move_coordinator(GROUP)

    def silence(self) -> None:
        """Returns once what is being produced is acknowledged."""
        self.is_silent = True
        with self._feeding:
            pass

    def speak(self) -> None:
        self.is_silent = False

    def elect(self) -> None:
        """The first other replica in sync of each partition."""
        for partition in range(self.story.partitions):
            others = sorted(self.broker.in_sync(TOPIC, partition) - {self.broker.leader_of(TOPIC, partition)})
            if others:
                self.broker.move_leader(TOPIC, partition, others[0])

    def _broker_of(self, role: str) -> int:
        return self.broker.leader_of(TOPIC) if role == "leader" else self.broker.coordinator_of(GROUP)

    def crash(self, role: str) -> None:
        self._down = self._broker_of(role)
        self.broker.kill(self._down)

    def revive(self) -> None:
        assert self._down is not None, "no broker was killed"
        self.broker.restart(self._down)

    def pause(self, role: str) -> None:
        self._down = self._broker_of(role)
        self.broker.pause(self._down)

    def resume(self) -> None:
        assert self._down is not None, "no broker was paused"
        self.broker.resume(self._down)


def _journal(line: JournalLine, started_ms: float) -> tuple[float, str]:
    phases = f"{line.event} ({line.state_from} -> {line.state_to})"
    return (line.time_ms - started_ms) / 1000, f"generation {line.generation}: {phases} {line.why()}".rstrip()
