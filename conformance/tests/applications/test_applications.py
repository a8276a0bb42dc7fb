"""The judgement of what Kafka Streams counted and Kafka Connect copied: each record that is lost, repeated or out of order is
seen."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from coterie.testing import LocalBroker
from coterie_conformance.applications.connect import wrong_copies
from coterie_conformance.applications.stories import APPLICATIONS
from coterie_conformance.applications.streams import standbys, wrong_counts
from coterie_conformance.applications.strikes import ApplicationStrikes

LINES = {"often": 9, "once": 1}
RIGHT = {"often": list(range(1, 10)), "once": [1]}


def test_right_counts() -> None:
    assert wrong_counts(LINES, RIGHT) == []


@pytest.mark.parametrize("seed", range(50))
def test_counts_that_are_lost_repeated_or_out_of_order(seed: int) -> None:
    rng = random.Random(seed)
    counts = {word: list(of_word) for word, of_word in RIGHT.items()}
    word = rng.choice(list(counts))
    index = rng.randrange(len(counts[word]))
    kind = rng.choice(["lost", "repeated", "out of order"] if word == "often" else ["lost", "repeated"])
    if kind == "lost":
        del counts[word][index]
    elif kind == "repeated":
        counts[word].insert(rng.randrange(len(counts[word]) + 1), counts[word][index])
    else:
        counts[word].append(counts[word].pop(min(index, len(counts[word]) - 2)))
    (line,) = wrong_counts(LINES, counts)
    assert line.startswith(f"{word}: ")


def test_before_the_first_instance_has_joined_no_task_has_a_standby() -> None:
    with LocalBroker() as broker:
        assert asyncio.run(standbys(broker.bootstrap_servers)) == set()


def test_the_applications_of_each_version() -> None:
    streams, by_broker, connect = "Kafka Streams", "Kafka Streams by the streams protocol", "Kafka Connect"
    for version, names in {
        "3.9.1": {streams, connect},
        "4.3.0": {streams, by_broker, connect},
        "4.4.0": {streams, by_broker},
    }.items():
        assert {application.name for application in APPLICATIONS if application.runs_with(version)} == names


def test_the_lines_of_a_judgement() -> None:
    assert wrong_counts({"a": 3, "b": 1, "c": 2}, {"a": [1, 1, 2, 3], "b": []}) == [
        "a: 1 where 2 is due, of 3 lines and 4 counts",
        "b: no further one where 1 is due, of 1 lines and 0 counts",
        "c: no further one where 1 is due, of 2 lines and 0 counts",
    ]


COPIED = ["line 0", "line 1", "line 2"]


def test_right_copies() -> None:
    """A sink writes a line again after a kill."""
    assert wrong_copies(3, COPIED, [COPIED, [*COPIED, "line 1"]]) == []


@pytest.mark.parametrize(
    "copied", [COPIED[:2], [*COPIED, "line 2"], ["line 0", "line 2", "line 1"], [*COPIED[:2], "line 3"], []]
)
def test_copies_that_are_lost_repeated_or_out_of_order(copied: list[str]) -> None:
    (line,) = wrong_copies(3, copied, [])
    assert line.startswith(f"the topic has {len(copied)} records")


def test_a_sink_that_lacks_lines() -> None:
    assert wrong_copies(3, COPIED, [COPIED, COPIED[1:]]) == ["sink 1 lacks 1 of 3 lines, line 0 for one"]


class RecordedProcess:
    """A broker and a process of an application at once."""

    address = "127.0.0.1", 9092

    def __init__(self, name: str, calls: list[str]) -> None:
        self._name, self._calls = name, calls

    def start(self) -> None:
        self._calls.append(f"start {self._name}")

    def kill(self) -> None:
        self._calls.append(f"kill {self._name}")

    def stop(self) -> None:
        self._calls.append(f"stop {self._name}")


def test_each_process_and_the_broker_is_killed_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr("time.sleep", lambda seconds: calls.append(f"sleep {seconds:g}"))
    one = RecordedProcess("one", calls)
    with ApplicationStrikes(RecordedProcess("broker", calls), random.Random(0)) as struck:
        struck.processes["one"] = one  # type: ignore[assignment]
        assert struck.server == "127.0.0.1:9092"
        struck.start()
        assert Counter(struck.order()) == {"broker": 2, "one": 2}
        assert len({struck.order() for _ in range(100)}) == 6
        struck.strike("broker")
        struck.strike("one")
    assert calls == [
        *("start broker", "start one"),
        *("kill broker", "start broker", "kill one", "sleep 2", "start one"),
        *("stop one", "stop broker"),
    ]


def test_the_broker_is_stopped_where_an_application_does_not_begin() -> None:
    calls: list[str] = []
    with (
        pytest.raises(OSError, match="no worker"),
        ApplicationStrikes(RecordedProcess("broker", calls), random.Random(0)),
    ):
        raise OSError("no worker")
    assert calls == ["start broker", "stop broker"]
