"""Spark ends the process of a streaming reader by closing its socket and by SIGTERM, in no certain order: the reader leaves its
group once and to the end. Without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import StructType

from coterie.pipeline.streaming import stream_reader
from coterie.pipeline.streaming.stream_reader import CoterieStreamReader


class Leaving:
    """A stream that is sent SIGTERM in the middle of its `leave`, as often as Spark likes."""

    def __init__(self, signals: int) -> None:
        self.signals, self.begun, self.ended = signals, 0, 0

    def leave(self) -> None:
        self.begun += 1
        for _ in range(self.signals):
            os.kill(os.getpid(), signal.SIGTERM)
        self.ended += 1


@pytest.fixture(autouse=True)
def _own_handler_afterwards() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def reader(stream: Leaving) -> CoterieStreamReader:
    made = CoterieStreamReader({}, StructType())
    made._stream = stream  # type: ignore[assignment]
    stream_reader._stop_at_sigterm(made)
    return made


@pytest.mark.parametrize("signals", [0, 1, 2])
def test_a_stop_that_the_socket_began_is_not_interrupted(signals: int) -> None:
    stream = Leaving(signals)
    reader(stream).stop()
    assert (stream.begun, stream.ended) == (1, 1)


def test_a_signal_stops_the_reader_itself() -> None:
    """Whatever happens to the exception: Spark's loop may be anywhere."""
    stream = Leaving(1)
    made = reader(stream)
    with pytest.raises(SystemExit):
        os.kill(os.getpid(), signal.SIGTERM)
    assert stream.ended == 1
    made.stop()
    assert stream.begun == 1


def test_the_stream_may_not_be_there_yet() -> None:
    made: Any = CoterieStreamReader({}, StructType())
    made.stop()
    assert made.stopping


# As PySpark's python_streaming_source_runner: the socket is closed by Spark, and the report of that goes to the same socket.
RUNNER = """
import sys
from types import SimpleNamespace
from coterie.pipeline.streaming.stream_reader import CoterieStreamReader
sys.modules["__main__"].__spec__ = SimpleNamespace(name="pyspark.sql.streaming.python_streaming_source_runner")
reader = CoterieStreamReader(dict(), None)
try:
    try:
        raise EOFError
    finally:
        reader.stop()
except BaseException:
    raise {error}
"""


@pytest.mark.parametrize(
    ("error", "printed"), [("BrokenPipeError(32, 'Broken pipe')", ""), ("KeyError('k')", "KeyError: 'k'")]
)
def test_a_stopped_query_prints_no_traceback_of_its_reader(error: str, printed: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RUNNER.format(error=error)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines()[-1:] == ([printed] if printed else [])
