"""The judge of mixed clusters sees unequal files, records that a group left out, and a cluster that does not settle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.records.encoding import encode_batch
from coterie.zookeeper.operations import Delete, ZooKeeperError
from coterie_conformance.cli.compare import compare
from coterie_conformance.cluster import judge, mixed, secure_checks
from coterie_conformance.cluster.controller_checks import steps
from coterie_conformance.cluster.java_load import operation_of
from coterie_conformance.cluster.judge import (
    BEGINS,
    KINDS,
    REPLICATION_CHECKS,
    WHOLE_AGAIN,
    ClusterJudge,
    ClusterJudgement,
)
from coterie_conformance.cluster.log_dir_checks import log_dir_fails
from coterie_conformance.cluster.migration import AT_REST, MigrationReport, PartitionGaps
from coterie_conformance.cluster.mixed import BrokerKind, MixedBroker, NotInTime, mixed_cluster, wait_until
from coterie_conformance.cluster.replication_checks import ReplicaFiles, difference
from coterie_conformance.cluster.strikes import StrikeReport, not_delivered
from coterie_conformance.histories.operation_history import (
    AnomalyKind,
    ClientOperation,
    OperationOutcome,
    PollStep,
    SendStep,
    anomalies,
)
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import CannotRun

ORDERS = ("orders", 0)


def batch(offset: int, value: bytes) -> bytes:
    return encode_batch([(1_000, None, value, ())], base_offset=offset)


def folder(path: Path, *segments: bytes, epochs: str = "") -> ReplicaFiles:
    path.mkdir()
    for number, data in enumerate(segments):
        (path / f"{number:020}.log").write_bytes(data)
    if epochs:
        (path / "leader-epoch-checkpoint").write_text(epochs)
    return ReplicaFiles.read(path)


def test_equal_files(tmp_path: Path) -> None:
    one, two = batch(0, b"a"), batch(1, b"b")
    kafka = folder(tmp_path / "kafka", one + two, epochs="0\n1\n0 0\n")
    ours = folder(tmp_path / "ours", one, two)  # segments end elsewhere, and epoch 0 alone needs no file
    behind = folder(tmp_path / "behind", one + two + batch(2, b"c")[:30])  # its last batch is being written
    assert difference({1: kafka, 2: ours, 3: behind}) == ""
    assert (kafka.end_offset, behind.end_offset) == (2, 2)


def test_unequal_files(tmp_path: Path) -> None:
    one, two, other = batch(0, b"a"), batch(1, b"b"), batch(1, b"x")
    kafka = folder(tmp_path / "kafka", one + two)
    assert "differ in their records from offset 1 on" in difference({1: kafka, 2: folder(tmp_path / "a", one + other)})
    assert "where one log ends" in difference({1: kafka, 2: folder(tmp_path / "b", one)})
    later = folder(tmp_path / "c", one + two, epochs="0\n2\n0 0\n3 1\n")
    assert difference({1: kafka, 2: later}) == "brokers 1 and 2 have the leader epochs ((0, 0),) and ((0, 0), (3, 1))"


def test_an_epoch_without_records_is_no_difference(tmp_path: Path) -> None:
    one = batch(0, b"a")
    leader = folder(tmp_path / "leader", one, epochs="0\n2\n0 0\n4 1\n")
    assert difference({1: folder(tmp_path / "follower", one), 2: leader}) == ""


def test_lines_of_java_clients() -> None:
    sent = operation_of("orders", "S java-writer-0 2 v-1 17\n")
    assert sent == ClientOperation("java-writer-0", (SendStep(("orders", 2), "v-1", 17),))
    assert operation_of("orders", "S java-writer-0 2 v-2 -1\n").outcome is OperationOutcome.UNKNOWN
    polled = operation_of("orders", "P java-reader-0 1 0 5:a,6:b 2 17:v-1\n")
    records = {ORDERS: ((5, "a"), (6, "b")), ("orders", 2): ((17, "v-1"),)}
    assert polled == ClientOperation("java-reader-0", (PollStep(records),), reassigned=True)
    assert operation_of("orders", "P java-member-0 0\n").steps == (PollStep({}),)


def test_a_lost_record_of_javas_producer_is_an_anomaly() -> None:
    lines = ["S w 0 a 0", "S w 0 b 1", "S w 0 c 2", "P r 1 0 0:a,2:c"]
    history = [operation_of("orders", line) for line in lines]
    assert AnomalyKind.LOST_WRITE in {anomaly.kind for anomaly in anomalies(history, read_to_end=True)}


def test_a_record_that_a_group_left_out() -> None:
    lines = ["S w 0 a 0", "S w 0 b 1", "S w 0 c 2", "S w 0 d -1"]
    lines += ["P reader 0 0 1:b", "P member-0 0 0 0:a", "P member-1 0 0 2:c"]
    history = [operation_of("orders", line) for line in lines]
    assert not_delivered(history, "member-", {ORDERS: 1}) == []
    assert not_delivered(history, "member-", {ORDERS: 3}) == ["the group left out b at offset 1 of orders-0"]


def test_the_longest_gap_of_each_phase() -> None:
    now_s = [0.0]
    gaps = PartitionGaps(lambda: now_s[0])
    gaps.begin(AT_REST)
    for at_s, partition in ((0.0, 0), (1.0, 1), (2.0, 0), (4.0, 1)):
        now_s[0] = at_s
        gaps.read(partition)
    gaps.begin("broker 1 leaves")
    now_s[0] = 30.0
    gaps.end()
    assert gaps.longest_s == {AT_REST: 3.0, "broker 1 leaves": 28.0}
    report = MigrationReport(longest_s=gaps.longest_s)
    report.check_pauses()
    assert report.wrong == ["while broker 1 leaves, a partition was without a record for 28.0 s"]


async def test_a_cluster_that_does_not_settle_is_wrong(tmp_path: Path) -> None:
    reported: list[tuple[str, str]] = []
    of = ClusterJudge(tmp_path, lambda name, wrong: reported.append((name, wrong)))

    async def never() -> str:
        await wait_until(lambda: False, "three brokers", patience_s=0.01)
        return ""

    async def settled() -> str:
        return ""

    await of.check("never", never())
    await of.check("settled", settled())
    assert reported == [("never", "not within 0.01 s: three brokers"), ("settled", "")]
    assert of.judgement.checks == dict(reported)
    assert issubclass(NotInTime, RuntimeError)


def _replication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: AbstractContextManager[object]
) -> list[tuple[str, str]]:
    """The checks of `ClusterJudge.replication` in this cluster: their names, and what is wrong."""
    reported: list[tuple[str, str]] = []
    monkeypatch.setattr(judge, "mixed_cluster", lambda *_, **__: cluster)
    asyncio.run(ClusterJudge(tmp_path, lambda name, wrong: reported.append((name, wrong))).replication())
    return reported


def test_brokers_that_never_know_each_other_are_one_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def apart() -> Iterator[None]:
        raise NotInTime("not within 60 s: all know each other")
        yield

    assert _replication(tmp_path, monkeypatch, apart()) == [(BEGINS, "not within 60 s: all know each other")]


def test_a_cluster_that_is_not_whole_after_its_checks_is_a_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's tools are not asked then."""

    class Behind:
        def restore(self) -> None:
            pass

        def controller(self) -> int:
            return judge.FIRST

        def is_whole(self) -> bool:
            return False

    monkeypatch.setattr(judge, "REPLICATION_CHECKS", ())
    monkeypatch.setattr(judge, "wait_until", partial(wait_until, patience_s=0.01))
    monkeypatch.setattr(judge, "JavaTools", None)
    expected = [(BEGINS, ""), (WHOLE_AGAIN, "not within 0.01 s: all replicas are in sync")]
    assert _replication(tmp_path, monkeypatch, nullcontext(Behind())) == expected


def test_a_cluster_whose_processes_do_not_start_cannot_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def without_java() -> Iterator[None]:
        raise CannotRun("no java")
        yield

    with pytest.raises(CannotRun):
        _replication(tmp_path, monkeypatch, without_java())


def test_a_cluster_begins_once_its_brokers_know_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    async def know(cluster: RecordedCluster) -> None:
        calls.append("know")

    class RecordedCluster:
        def __init__(self, *_: object, **__: object) -> None:
            self.close = lambda: calls.append("close")

        def add(self, broker_id: int, kind: BrokerKind) -> None:
            calls.append(f"add {broker_id}")

    async def begin() -> None:
        with mixed_cluster(tmp_path, dict.fromkeys((1, 2), BrokerKind.COTERIE)):
            calls.append("begin")

    monkeypatch.setattr(mixed, "LocalZooKeeper", lambda *_: nullcontext())
    monkeypatch.setattr(mixed, "MixedCluster", RecordedCluster)
    monkeypatch.setattr(mixed, "until_all_know_each_other", know)
    asyncio.run(begin())  # also where a loop runs
    assert calls == ["add 1", "add 2", "know", "begin", "close"]


def test_the_folder_of_a_log_in_any_log_directory(tmp_path: Path) -> None:
    first, second = tmp_path / "data", tmp_path / "data-2"
    (first / "orders-0").mkdir(parents=True)
    (second / "orders-1").mkdir(parents=True)
    broker = MixedBroker(1, BrokerKind.COTERIE, CoterieBroker(tmp_path, {}), (first, second))
    assert broker.log_folder("orders-0") == first / "orders-0"
    assert broker.log_folder("orders-1") == second / "orders-1"
    assert broker.log_folder("orders-2") == first / "orders-2"  # of a replica that is not there


def test_a_log_directory_fails_under_each_controller() -> None:
    failing = [check for check in REPLICATION_CHECKS if check.work is log_dir_fails]
    assert {KINDS[check.controller] for check in failing} == set(BrokerKind)
    assert {KINDS[check.broker] for check in failing} == {BrokerKind.KAFKA}  # ours have one directory, and stop with it


def test_each_side_leads_and_follows_under_each_controller() -> None:
    assert {(check.controller, check.broker) for check in REPLICATION_CHECKS} >= {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert len({step.command for step in steps((1, 2, 3))}) >= 8


def test_the_part_prints_what_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    strikes = StrikeReport({"leader, coterie": 2}, operations=9, sent=4, read=12)
    way = MigrationReport(sent=3, transactions=1, read=6, longest_s={AT_REST: 0.3, "broker 1 leaves": 3.8})
    judgement = ClusterJudgement({"coterie leads": "", "2 strikes under load": "a lost record"}, strikes, way)
    monkeypatch.setattr("coterie_conformance.cluster.judge.judge", lambda *_: judgement)
    done = CliRunner().invoke(compare, ["--part", "cluster", "--strikes", "2"])
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "Apache Kafka 2.6.3:",
        "  one cluster with coterie: 1 of 2 checks right",
        "    strikes: 4 records sent, 12 records read, 0 wrong",
        "      2 x leader, coterie",
        "    from Kafka to coterie and back: 3 records sent, 1 transaction committed, 6 records read; the longest time",
        "    without a record of a partition:",
        "        0.3 s while all rest",
        "        3.8 s while broker 1 leaves",
    ]
    done = CliRunner().invoke(compare, ["--part", "cluster", "--json"])
    (result,) = json.loads(done.stdout)
    assert (result["failed"], result["cluster"]["checks"]["coterie leads"]) == (1, True)
    assert result["cluster"]["migration"]["longest_s"] == {AT_REST: 0.3, "broker 1 leaves": 3.8}


def test_the_checks_of_a_secured_cluster_go_on_after_a_wrong_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wrong(cluster: object) -> str:
        return "alice may write"

    async def late(cluster: object) -> str:
        raise NotInTime("not within 180 s: all know each other")

    async def right(cluster: object) -> str:
        return ""

    monkeypatch.setattr(judge, "secure_cluster", lambda folder: nullcontext(folder))
    monkeypatch.setattr(judge, "SECURE_CHECKS", {"refuses": wrong, "joins": late, "replicates": right})
    reported: list[tuple[str, str]] = []
    of = ClusterJudge(tmp_path, lambda name, wrong: reported.append((name, wrong)))
    asyncio.run(of.secured())
    expected = {"refuses": "alice may write", "joins": "not within 180 s: all know each other", "replicates": ""}
    assert dict(reported) == expected


class OpenZooKeeper:
    """A session to which everything is allowed, or nothing."""

    def __init__(self, error: ZooKeeperError | None) -> None:
        self._error = error

    def apply(self, operation: object) -> None:
        if self._error is not None:
            raise self._error

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "wrong"),
    [
        (ZooKeeperError("NoAuthError: "), ""),
        (None, "Delete(path='/controller') is done"),
        (ZooKeeperError("ConnectionLoss"), "Delete(path='/controller'): ConnectionLoss"),
    ],
)
def test_a_zookeeper_that_lets_a_stranger_in_is_wrong(
    error: ZooKeeperError | None, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secure_checks, "connect", lambda *_: None)
    monkeypatch.setattr(secure_checks, "ZooKeeperSession", lambda *_: OpenZooKeeper(error))
    assert secure_checks._done_by_a_stranger("127.0.0.1:1", (Delete("/controller"),)) == wrong
