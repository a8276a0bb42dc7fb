"""The flusher: a response waits for a sync that began after its append, one sync at a time is shared by all that wait, and
after a failed one nothing is answered any more."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from coterie.broker.storage.flusher import Flusher, Synced, sync_in_thread
from coterie.log.filesystem import File, MemoryFile
from coterie.log.log_state import Flushing
from tests.awaiting import until

LOGS = 3


class Log:
    """The part of a PartitionLog that a flusher sees."""

    def __init__(self) -> None:
        self.segments = [SimpleNamespace(file=MemoryFile())]
        self.flushing = Flushing()
        self.end_offset = 0

    def append(self) -> int:
        """The size that must be on the disk."""
        file = self.segments[-1].file
        file.append(b"x")
        self.end_offset += 1
        self.flushing.appended(self.end_offset - 1, self.end_offset, 1, 0)
        return int(file.size())


class Disk:
    """Files in the order of their syncs; a sync ends when the test has it end."""

    def __init__(self) -> None:
        self.soon: deque[Callable[[], object]] = deque()
        self.running: tuple[list[File], Synced] | None = None
        self.syncs = 0

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        self.soon.append(lambda: callback(*args))

    def sync(self, files: list[File], synced: Synced) -> None:
        assert self.running is None, "a second sync beside the first"
        assert len(set(map(id, files))) == len(files) > 0
        for file in files:
            file.sync()  # what is appended after the sync began is not part of it
        self.running, self.syncs = (files, synced), self.syncs + 1

    def turn(self) -> None:
        while self.soon:
            self.soon.popleft()()

    def end(self, error: OSError | None = None) -> None:
        assert self.running is not None
        (_, synced), self.running = self.running, None
        synced(error)


class Story:
    def __init__(self) -> None:
        self.disk, self.logs = Disk(), [Log() for _ in range(LOGS)]
        self.failures: list[OSError] = []
        self.responded: list[int] = []
        self.waiting: dict[int, tuple[Log, int]] = {}
        self.flusher = Flusher(self.disk, self.disk.sync, self.failures.append)  # type: ignore[arg-type]

    def append(self, number: int, *, response: bool) -> None:
        log = self.logs[number]
        size, token = log.append(), len(self.responded) + len(self.waiting)
        if not response:
            self.flusher.after_sync(log)  # type: ignore[arg-type]
            return
        self.waiting[token] = (log, size)
        self.flusher.after_sync(log, lambda: self._respond(token))  # type: ignore[arg-type]

    def _respond(self, token: int) -> None:
        log, size = self.waiting.pop(token)
        assert log.segments[-1].file.synced >= size, "a response before its record is on the disk"
        assert not self.failures, "a response after a failed sync"
        self.responded.append(token)


steps = st.lists(
    st.tuples(st.sampled_from(["answer", "later"]), st.integers(0, LOGS - 1)) | st.sampled_from(["turn", "end"]),
    max_size=40,
)


@given(steps, st.none() | st.integers(1, 6))
def test_every_response_follows_a_sync_that_began_after_its_append(
    story: list[str | tuple[str, int]], fails: int | None
) -> None:
    at, error = Story(), OSError(errno.EIO, "the disk failed")
    for step in [*story, *["turn", "end"] * 3]:
        if step == "turn":
            at.disk.turn()
        elif step == "end":
            if at.disk.running is not None:
                at.disk.end(error if at.disk.syncs == fails else None)
        else:
            assert isinstance(step, tuple)
            kind, number = step
            at.append(number, response=kind == "answer")
        if not at.failures:
            behind = [log for log in at.logs if log.segments[-1].file.synced < log.segments[-1].file.size()]
            syncing = [log for log in at.logs if at.flusher.is_syncing(log)]  # type: ignore[arg-type]
            assert all(log.flushing.high_watermark(log.end_offset) <= log.segments[-1].file.synced for log in at.logs)
            assert {id(log) for log, _ in at.waiting.values()} <= {id(log) for log in syncing}
            assert {id(log) for log in behind} <= {id(log) for log in syncing}
    assert at.responded == sorted(at.responded), "in the order of the requests"
    if at.failures:
        assert at.failures == [error]
        assert at.disk.syncs == fails, "no sync after the failed one"
    else:
        assert not at.waiting
        assert not any(at.flusher.is_syncing(log) or log.flushing.messages for log in at.logs)  # type: ignore[arg-type]


def test_requests_share_the_next_sync() -> None:
    at = Story()
    for number in (0, 1):
        at.append(number, response=True)
    at.disk.turn()
    assert at.disk.syncs == 1, "the requests of one turn share a sync"
    for number in (1, 2, 1, 0):
        at.append(number, response=True)
    at.disk.end()
    assert (at.responded, at.disk.syncs) == ([0, 1], 2)
    at.disk.end()
    assert (at.responded, at.disk.syncs) == ([0, 1, 2, 3, 4, 5], 2)


def test_the_failure_of_a_logs_own_sync_ends_the_flusher_once() -> None:
    at, error = Story(), OSError(errno.EIO, "the disk failed")
    at.append(0, response=True)
    at.disk.turn()
    at.flusher.fail(error)
    at.flusher.fail(OSError(errno.EIO, "again"))
    at.disk.end()
    assert (at.failures, at.responded) == ([error], [])


async def test_files_are_synced_in_a_thread_and_the_result_comes_to_the_loop() -> None:
    class Broken(MemoryFile):
        def sync(self) -> None:
            raise OSError(errno.EIO, "the disk failed")

    results: list[OSError | None] = []
    sync = sync_in_thread(asyncio.get_running_loop())
    whole = MemoryFile()
    whole.append(b"abc")
    sync([whole], results.append)
    await until(lambda: results, "the sync ends")
    assert (results, whole.synced) == ([None], 3)
    sync([Broken(), whole], results.append)
    await until(lambda: len(results) == 2, "the failed sync ends")
    assert isinstance(results[1], OSError)
