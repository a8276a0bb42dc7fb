"""The part `cluster-clients`: what clients' lines say, figures of outages, who is slower, and what is printed and counted."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie_conformance.cli.compare import compare
from coterie_conformance.cli.parts.cluster import CLIENT_NAMES, MEASURES
from coterie_conformance.cluster.java_load import ClientLoad, operation_of
from coterie_conformance.cluster_clients.judge import KillsJudgement
from coterie_conformance.cluster_clients.kills import GROUP_PROGRAMS, KillsReport, is_endless
from coterie_conformance.cluster_clients.outages import (
    GroupOutage,
    GroupTimes,
    ObservedKill,
    figure,
    is_slower,
    notch,
    outages,
    slowest_by_kill,
)
from coterie_conformance.cluster_clients.work import GroupWork, Polled, PositionMoves
from coterie_conformance.histories.operation_history import ClientOperation, OperationOutcome, PollStep, SendStep


def kill(at_s: float, *coordinated: str, led: frozenset[str] = frozenset()) -> ObservedKill:
    return ObservedKill(1, "coordinator", at_s, at_s + 6, frozenset(coordinated), led)


def test_commits_of_the_dead_coordinator_do_not_count() -> None:
    times = GroupTimes([99.0, 100.5, 107.5, 108.0], {0: [99.0, 106.5, 109.0], 1: [100.1, 110.0]})
    (row,) = outages([kill(100.0, "crew")], {"crew": times}, partitions=2)
    assert row == GroupOutage("crew", 0, coordinator_s=7.5, after_expiry_s=1.5, records_s=10.0)


def test_a_group_whose_coordinator_lives_has_figures_only_where_it_loses_a_leader() -> None:
    kills, times = [kill(100.0), kill(120.0, led=frozenset({"crew"}))], GroupTimes([127.0], {0: [128.0]})
    assert outages(kills, {"crew": times}, 1) == [GroupOutage("crew", 1, None, None, 8.0)]


def test_a_group_that_does_not_come_back_is_endless() -> None:
    rows = outages([kill(100.0, "crew")], {"crew": GroupTimes([101.0], {0: [101.0]})}, 1)
    assert [(row.coordinator_s, row.records_s) for row in rows] == [(inf, inf)]
    assert is_endless(rows[0])
    assert not is_endless(GroupOutage("crew", 0, None, None, 8.0))


def test_a_partition_that_nobody_reads_any_more_is_seen() -> None:
    (row,) = outages([kill(100.0, "crew")], {"crew": GroupTimes([107.0], {0: [107.0]})}, partitions=2)
    assert (row.coordinator_s, row.records_s) == (7.0, inf)


def test_groups_of_one_kill_are_one_sample() -> None:
    rows = [
        GroupOutage(g, k, s, None, 9.0) for g, k, s in (("a", 0, 6.0), ("b", 0, 8.0), ("a", 1, 7.0), ("b", 1, None))
    ]
    assert slowest_by_kill(rows) == [8.0, 7.0]


def test_slower_is_more_than_the_spread_between_kills() -> None:
    theirs = [6.0, 6.5, 7.0, 7.5, 8.0, 6.5, 7.0, 7.5]
    assert notch(theirs) == pytest.approx(1.57 * 1.0 / 8**0.5)
    ours = figure([seconds + 0.5 for seconds in theirs]), figure([seconds + 2.0 for seconds in theirs])
    kafka = figure(theirs)
    assert kafka is not None
    assert ours[0] is not None
    assert ours[1] is not None
    assert not is_slower(ours[0], kafka)
    assert is_slower(ours[1], kafka)
    assert not is_slower(kafka, ours[1])
    assert kafka.worst == 8.0
    assert figure([]) is None
    few = figure([9.0, 9.1, 9.2]), figure([6.0, 6.1, 6.2])
    assert few[0] is not None
    assert few[1] is not None
    assert not is_slower(few[0], few[1]), "the sessions of a few kills differ by more"
    assert notch([5.0, 9.0]) == 4.0, "of two values nothing is certain"


def report(*seconds: float, wrong: dict[str, list[str]] | None = None) -> KillsReport:
    rows = [GroupOutage("java", number, s, s - 6, s + 2) for number, s in enumerate(seconds)]
    return KillsReport([kill(0.0, "java")] * len(rows), rows, 300.0, 40, 41, wrong or {})


def test_only_what_is_wrong_of_ours_counts() -> None:
    even = report(6.0, 6.1, 6.2, 6.3), report(6.0, 6.1, 6.2, 6.3, wrong={"java": ["a lost record"]})
    assert KillsJudgement(*even).wrong() == []
    assert KillsJudgement(even[1], even[0]).wrong() == ["java: a lost record"]
    assert KillsJudgement(report(9.0, 9.1, 9.2, 9.3), even[0]).wrong() == [
        "groups are without a coordinator for longer than on Apache Kafka"
    ]
    assert KillsJudgement(report(9.0, 9.1, 9.2, 9.3), None).wrong() == []
    assert KillsJudgement(report(), even[0]).wrong() == ["no coordinator was killed"]
    (text,) = KillsJudgement(even[0], report()).wrong()
    assert "nothing to compare with" in text


def test_the_part_prints_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    judgement = KillsJudgement(report(6.0, 8.0, 7.0, wrong={"java": ["a lost record"]}), report(8.0, 7.0, 9.0))
    monkeypatch.setattr("coterie_conformance.cluster_clients.judge.judge", lambda *_: judgement)
    done = CliRunner().invoke(compare, ["--part", "cluster-clients"])
    seconds = "coterie 7.0 ± 2.0, worst 8.0 (3); Kafka 2.6.3 8.0 ± 2.0, worst 9.0 (3); 0.88 x"
    assert done.exit_code == 1
    assert done.stdout.splitlines()[:7] == [
        "Apache Kafka 2.6.3:",
        "  clients on three brokers, of which one is killed again and again: 1 wrong",
        "    coterie: 3 kills in 300 s, 40 records sent, 41 read, 1 wrong",
        "    Kafka 2.6.3: 3 kills in 300 s, 40 records sent, 41 read, 0 wrong",
        "    seconds without a coordinator:",
        f"      {'java':<30} {seconds}",
        f"      the slowest group of each kill {seconds}",
    ]
    (result,) = json.loads(CliRunner().invoke(compare, ["--part", "cluster-clients", "--json"]).stdout)
    assert (result["failed"], result["cluster_clients"]["times"].keys()) == (1, MEASURES.keys())
    assert result["cluster_clients"]["times"]["records_s"]["java"]["kafka"]["median"] == 10.0


def test_each_client_can_be_chosen() -> None:
    assert (*GROUP_PROGRAMS,) == CLIENT_NAMES


# -- the programs ----------------------------------------------------------------------------------------------------------


class FakeMember:
    """Its second commit is refused, and no record comes any more."""

    def __init__(self, moves: PositionMoves, done: threading.Event) -> None:
        self._moves, self._done = moves, done
        self._polled: list[Polled] = [{0: [(0, "a"), (1, "b")]}, {1: [(0, "c")]}]
        self._commits = 0

    def poll(self) -> tuple[Polled, bool]:
        return self._polled.pop(0) if self._polled else {}, self._moves.take()

    def commit(self) -> None:
        self._commits += 1
        if self._commits == 2:
            raise RuntimeError("no coordinator")
        if self._commits == 3:
            self._done.set()

    def close(self) -> None: ...


class FakeProducer:
    """Its third record is not delivered."""

    def __init__(self, done: threading.Event) -> None:
        self._sent, self._done = 0, done

    def send(self, partition: int, value: bytes) -> Callable[[], int]:
        self._sent += 1
        return partial(self._offset, self._sent)

    def _offset(self, number: int) -> int:
        if number == 3:
            raise TimeoutError("no delivery report")
        return number

    def close(self) -> None:
        self._done.set()


class FakeStdin:
    """A line, and then its end, each once its event has come."""

    def __init__(self, *events: threading.Event) -> None:
        self._events = list(events)

    def readline(self) -> str:
        self._events.pop(0).wait(30)
        return "\n" if self._events else ""


def test_the_lines_of_a_program(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that was refused is made again without a new record: else the commits would not reach the ends."""
    has_failed, has_committed = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "stdin", FakeStdin(has_failed, has_committed))
    GroupWork("fake", 2, lambda: FakeProducer(has_failed), lambda moves: FakeMember(moves, has_committed)).run(1)
    lines = capsys.readouterr().out.splitlines()
    member = [line for line in lines if line[0] in "PC"]
    assert member == ["P fake-member-0 1 0 0:a,1:b", "C fake-member-0", "P fake-member-0 0 1 0:c", "C fake-member-0"]
    sent = [operation_of("work", line) for line in lines if line[0] == "S"]
    values = [step.value for operation in sent for step in operation.steps if isinstance(step, SendStep)]
    assert values == [f"fake-writer-0-{number}" for number in range(len(sent))], "no value is sent again"
    assert sent[2].outcome is OperationOutcome.UNKNOWN


def test_lines_become_a_history(tmp_path: Path) -> None:
    lines = "S w 0 w-0 17\\nS w 1 w-1 -1\\nP m 1 0 17:w-0\\nC m\\nC m\\n"
    polled, commits = list[int](), list[int]()
    load = ClientLoad(
        [sys.executable, "-c", f"import sys; print('{lines}', end='', flush=True); sys.stdin.read()"],
        "work",
        tmp_path / "log",
        polled.append,
        lambda: commits.append(1),
    )
    load.end_writers()
    assert load.stop() == [
        ClientOperation("w", (SendStep(("work", 0), "w-0", 17),)),
        ClientOperation("w", (SendStep(("work", 1), "w-1"),), OperationOutcome.UNKNOWN),
        ClientOperation("m", (PollStep({("work", 0): ((17, "w-0"),)}),), reassigned=True),
    ]
    assert (polled, len(commits)) == ([0], 2)
