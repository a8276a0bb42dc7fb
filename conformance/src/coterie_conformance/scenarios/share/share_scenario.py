"""Scenarios of a share partition (tests/spec/share): what members acquire and give back, what is written, and the window.

== testAcknowledgeSingleRecordBatch
fetch c1 0-9
    acquired 0-9 x1
    window 0 to 9: 0-9 ACQUIRED x1 c1
ack c1 0-9 accept
    written from 0, 10 complete: 0-9 ACKNOWLEDGED x1
    window 10 to 10

A fetch lists the batches that it reads, ``!`` after one of an aborted transaction. ``write=held`` leaves a write open
until ``written N`` or ``failed N``; ``write=failed`` fails it at once. A batch that is split is in brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from coterie.share.acknowledging import Acknowledgement, acknowledge, expire, release
from coterie.share.acquiring import Acquiring, LogBatch, acquire
from coterie.share.dead_letters import DeadRecords
from coterie.share.in_flight import NO_LOCK, Batch, OffsetRun
from coterie.share.partition import ShareLimits, SharePartition, StateRange, StateWrite, loaded
from coterie.share.states import RENEW, RecordState
from coterie.wire.errors import Refusal
from coterie_conformance.scenarios.groups.scenario import run_step
from coterie_conformance.scenarios.share.share_burials import ShareBurials

Options = dict[str, str]
_TYPES = {"gap": 0, "accept": 1, "release": 2, "reject": 3, "renew": RENEW}


class ShareScenario:
    """One share partition, its members and its time."""

    def __init__(self) -> None:
        self._now_ms = 0
        self._partition = SharePartition(ShareLimits())
        self._held: dict[int, StateWrite] = {}
        self._trace: list[str] = []
        self.verbs: dict[str, Callable[[list[str], Options], None]] = {
            "limits": self._limits,
            "load": self._load,
            "fetch": self._fetch,
            "ack": self._ack,
            "release": self._release,
            "advance": self._advance,
            "log_start": self._log_start,
            "written": lambda words, options: self._end(int(words[0]), kept=True),
            "failed": lambda words, options: self._end(int(words[0]), kept=False),
            "buried": self._buried,
            "next": self._next,
        } | ShareBurials(lambda line: self._trace.append(line)).verbs

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace. Raises ScenarioError."""
        self._trace = []
        run_step(self.verbs, line)
        return self._trace

    def _limits(self, words: list[str], options: Options) -> None:
        """``limits locks=200 deliveries=5 lock_ms=30000 renewals=no dead_letters=yes``"""
        limits = self._partition.limits
        self._partition.limits = replace(
            limits,
            max_record_locks=int(options.get("locks", limits.max_record_locks)),
            delivery_count_limit=int(options.get("deliveries", limits.delivery_count_limit)),
            record_lock_duration_ms=int(options.get("lock_ms", limits.record_lock_duration_ms)),
            renewals=options.get("renewals", "yes") == "yes",
            dead_letters=options.get("dead_letters", "no") == "yes",
        )

    def _load(self, words: list[str], options: Options) -> None:
        """``load 5 5-10:AVAILABLE:2``: the start offset, and the states that were written."""
        states = []
        for word in words[1:]:
            offsets, state, count = word.split(":")
            states.append(StateRange(*_offsets(offsets), RecordState[state], int(count)))
        try:
            self._partition = loaded(self._partition.limits, int(words[0]), states)
        except ValueError as error:
            self._trace.append(str(error))
            return
        self._dead_letters(self._partition.archiving())
        self._window()

    def _fetch(self, words: list[str], options: Options) -> None:
        """``fetch MEMBER FIRST-LAST... at=OFFSET max=500 batch=500 mode=record_limit``"""
        batches = [LogBatch(*_offsets(word.rstrip("!")), word.endswith("!")) for word in words[1:]]
        at = int(options.get("at", batches[0].first if batches else 0))
        requested = Acquiring(
            words[0],
            int(options.get("max", 500)),
            int(options.get("batch", 500)),
            options.get("mode") == "record_limit",
            self._now_ms,
        )
        acquired = acquire(self._partition, requested, at, batches)
        self._trace.append(
            "acquired " + (" ".join(f"{_range(a.first, a.last)} x{a.delivery_count}" for a in acquired) or "nothing")
        )
        self._window()

    def _ack(self, words: list[str], options: Options) -> None:
        """``ack MEMBER FIRST-LAST TYPE[,TYPE...] ...``"""
        pairs = zip(words[1::2], words[2::2], strict=True)
        acknowledgements = [
            Acknowledgement(*_offsets(offsets), [_TYPES.get(kind, 9) for kind in kinds.split(",")])
            for offsets, kinds in pairs
        ]
        try:
            write = acknowledge(self._partition, words[0], acknowledgements, self._now_ms)
        except Refusal as refusal:
            self._trace.append(f"{refusal.code.name}: {refusal.message}")
            self._window()
            return
        self._written(write, options)

    def _release(self, words: list[str], options: Options) -> None:
        self._written(release(self._partition, words[0]), options)

    def _advance(self, words: list[str], options: Options) -> None:
        """Time passes; locks end when they are due."""
        end_ms = self._now_ms + int(words[0])
        while self._partition.next_deadline_ms != NO_LOCK and self._partition.next_deadline_ms <= end_ms:
            self._now_ms = self._partition.next_deadline_ms
            self._trace.append(f"@{self._now_ms}")
            self._written(expire(self._partition, self._now_ms), options)
        self._now_ms = end_ms

    def _log_start(self, words: list[str], options: Options) -> None:
        self._partition.log_start_moved(int(words[0]))
        self._window()

    def _buried(self, words: list[str], options: Options) -> None:
        """The dead letter topic has the records."""
        self._written(self._partition.buried(*_offsets(words[0])), options)

    def _next(self, words: list[str], options: Options) -> None:
        """Where the next fetch begins, and whether one may acquire anything."""
        offset = self._partition.next_fetch_offset()
        self._trace.append(f"{offset}" if self._partition.can_acquire() else f"{offset}, the window is full")

    def _written(self, write: StateWrite, options: Options) -> None:
        if not write.batches:
            self._trace.append("nothing to write")
            self._window()
            return
        states = ", ".join(f"{_range(s.first, s.last)} {s.state.name} x{s.delivery_count}" for s in write.batches)
        text = f"from {write.start_offset}, {write.complete_count} complete: {states}"
        outcome = options.get("write", "written")
        self._trace.append(f"{outcome} {write.number if outcome == 'held' else ''}".rstrip() + f" {text}")
        if outcome == "held":
            self._held[write.number] = write
            self._window()
        else:
            self._held[write.number] = write
            self._end(write.number, kept=outcome != "failed")

    def _end(self, number: int, *, kept: bool) -> None:
        write = self._held.pop(number)
        self._partition.written(write, self._now_ms, kept=kept)
        for ended in write.ended if kept else ():
            member = ended.member_id or "nobody"
            offsets = _range(ended.first, ended.last)
            self._trace.append(f"{offsets} ended: {ended.cause.name}, x{ended.delivery_count}, last to {member}")
        self._dead_letters(write.dead_letters)
        self._window()

    def _dead_letters(self, dead: Iterable[DeadRecords]) -> None:
        for records in dead:
            offsets = _range(records.first, records.last)
            member = f", last to {records.member_id}" if records.member_id else ""
            self._trace.append(f"{offsets} x{records.delivery_count}{member} to the dead letters: {records.reason}")

    def _window(self) -> None:
        partition = self._partition
        text = " ".join(_batch_text(batch) for batch in partition.in_flight.batches)
        self._trace.append(f"window {partition.start_offset} to {partition.end_offset}" + (f": {text}" if text else ""))


def _offsets(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _range(first: int, last: int) -> str:
    return f"{first}-{last}" if last != first else str(first)


def _batch_text(batch: Batch) -> str:
    text = ", ".join(_run_text(run) for run in batch.runs)
    return f"[{text}]" if batch.is_split else text


def _run_text(run: OffsetRun) -> str:
    member = f" {run.member_id}" if run.member_id else ""
    writing = " (being written)" if run.before else ""
    return f"{_range(run.first, run.last)} {run.state.name} x{run.delivery_count}{member}{writing}"
