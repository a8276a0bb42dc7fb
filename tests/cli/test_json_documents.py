"""Every command with --json against a broker with a group, topics and an open transaction: what it prints has the documented
shape. Commands that start Spark, Kafka or other processes are given the results of those; the tests that really run them, and
those with a real ZooKeeper, ask `documented` too."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.cli.demo import _write_results
from coterie.cli.parts.json_documents import json_documents
from coterie.client.admin.group_explanation import GroupExplanation
from coterie.client.blocking import BlockingConsumer, BlockingProducer
from coterie.console.page import Markup, Section
from coterie.demo.checks import Check
from coterie.laboratory.what_if import WhatIfSetting
from coterie.pipeline.what_if import MEASURES
from coterie.testing import LocalBroker
from tests.cli.json_shapes import differing, documented
from tests.cli.test_every_command import LEAVES

ROOT = Path(__file__).parents[2]
# Against the broker of `world`, in any order.
ASKED = [
    "acls add --principal User:a --operation read --topic orders",
    "acls list",
    "acls list --topic orders",
    "acls why --principal User:a --operation read --topic orders",
    "acls remove --principal User:b --operation read --topic orders",
    "quotas set --user a --quota producer_byte_rate=1",
    "quotas list",
    "users list",
    "quotas remove --user b producer_byte_rate",
    "clients",
    "cluster describe",
    "groups list",
    "groups list --state Stable",
    "groups describe crew",
    "groups describe alone",
    "groups why crew",
    "groups why alone",
    "groups watch crew --times 2 --every 0.1",
    "groups lint crew",
    "groups predict crew --rolling-restart --static --seeds 1 --pause 1s --gap 1s",
    "groups flapping crew",
    "groups flapping",
    "groups flapping --for 1s",
    "groups history crew",
    "groups history crew --all",
    "groups history nobody",
    "observe --from-beginning --for 3",
    "groups reset alone --to earliest --dry-run",
    "groups reset alone --to latest",
    "groups delete-offsets alone -t orders --dry-run",
    "groups delete-offsets alone -t orders",
    "groups delete gone",
    "topics list --internal",
    "topics create made -c retention.ms=1000",
    "topics grow grown -p 9",
    "topics describe orders",
    "topics describe orders --all",
    "topics delete gone",
    "topics elect",
    "topics elect orders",
    "topics reassign --list",
    "topics reassign --cancel",
    "topics reassign orders --brokers 1",
    "topics reassign orders --brokers 1 --dry-run",
    "produce orders",
    "consume orders --from-beginning -n 2",
    "consume __consumer_offsets --from-beginning -n 1",
    "wire",
    "wire JoinGroupRequest 9",
    "lab handover --members 1 --partitions 1",
    "lab migration --members 2 --partitions 2",
    "certify --rules",
    "certify-client --list",
]
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
# What needs a broker at work elsewhere -> the file whose test asks `documented` for it.
WITH_ZOOKEEPER = {"groups migrate": "tests/zookeeper/test_real_zookeeper.py"}
GIVEN = (
    "demo",
    "log check",
    "pipeline as-of",
    "pipeline delays",
    "pipeline export",
    "pipeline fleet",
    "pipeline history",
    "pipeline keys",
    "pipeline report",
    "pipeline table",
    "pipeline what-if",
)


def outcome(broker: LocalBroker | None, line: str, *more: str) -> str:
    environment = {"COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers if broker else "127.0.0.1:1"}
    arguments = [*line.split(), *more, "--json"]
    result = CliRunner(env=environment).invoke(main, arguments, input="one\ntwo\n", catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    return result.stdout


@pytest.fixture(scope="module")
def world() -> Iterator[LocalBroker]:
    """A broker at work: a group with a history and a static member, a group that only commits, and an open transaction with
    records and pending offsets."""
    with LocalBroker(AUTHORIZED) as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("grown", 1)
        broker.create_topic("gone", 1)
        server = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
        crew = server | {"group.id": "crew", "enable.auto.commit": False}
        with BlockingProducer(server) as producer:
            producer.send("orders", b"\xff", b"a", partition=0, headers=[("h", b"1"), ("n", None)])
            producer.send("orders", None, partition=1)
        with BlockingConsumer(crew) as first:
            first.subscribe(["orders"])
            first.poll(30_000)
            first.commit()
        for group in ("alone", "gone"):
            with BlockingConsumer(server | {"group.id": group}) as consumer:
                consumer.assign([("orders", 0)])
                consumer.commit({("orders", 0): 1})
        transactional = server | {"transactional.id": "t", "transaction.timeout.ms": 600_000}
        with (
            BlockingConsumer(crew | {"group.instance.id": "anna"}) as member,
            BlockingProducer(transactional) as producer,
        ):
            member.subscribe(["orders"])
            while not member.assignment():
                member.poll(1000)
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"uncommitted", partition=0)
            producer.send_offsets_to_transaction({("orders", 0): 1}, member.group_metadata())
            producer.flush()
            with BlockingConsumer(server | {"group.id": "next", "group.protocol": "consumer"}) as consumer:
                consumer.subscribe(["orders"])
                consumer.poll(30_000)
            yield broker
            producer.abort_transaction()


@pytest.mark.parametrize("line", ASKED)
def test_a_command_against_a_broker_at_work(line: str, world: LocalBroker) -> None:
    command = next(name for name in json_documents() if f"{line} ".startswith(f"{name} "))
    documented(command, outcome(world, line))


def test_every_command_with_json_is_asked() -> None:
    """And no command is documented that takes no --json."""
    with_json = {
        " ".join(words) for words, command in LEAVES.items() if any("--json" in p.opts for p in command.params)
    }
    assert set(json_documents()) == with_json
    requested = {name for name in with_json for line in ASKED if f"{line} ".startswith(f"{name} ")}
    assert requested | {*GIVEN, *WITH_ZOOKEEPER} == with_json
    for name, path in WITH_ZOOKEEPER.items():
        assert f'documented("{name}"' in (ROOT / path).read_text()


def test_the_generations_of_a_consumer_group(world: LocalBroker) -> None:
    generations = documented("groups history", outcome(world, "groups history next"))
    first = [(line["generation"], line["event"], len(line.get("moved", []))) for line in generations[:2]]
    assert first == [(2, "epoch_raised", 0), (2, "target_computed", 2)]


def test_the_group_is_at_work(world: LocalBroker) -> None:
    """The documents above are not empty ones."""
    described = documented("groups describe", outcome(world, "groups describe crew"))
    assert [m["group_instance_id"] for m in described["members"]] == ["anna"]
    assert len(documented("groups history", outcome(world, "groups history crew --all"))) > 3
    explained = documented("groups why", outcome(world, "groups why crew"))
    assert [p["owner"] is not None for p in explained["partitions"]] == [True, True]
    log = world.broker.topics.by_name["orders"].partitions[0].log
    assert log.last_stable_offset < log.end_offset


# -- commands that are given the results of what they start ------------------------------------------------------------


def test_log_check(world: LocalBroker, tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    data = world.broker.topics.by_name["orders"].partitions[0].log.read(0, 1 << 20)
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(data[:-1])
    checked = documented("log check", outcome(None, f"log check {tmp_path}"))
    assert checked["findings"]


@pytest.mark.parametrize("name", ["table", "delays", "keys"])
def test_stream_jobs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("coterie.cli.pipeline.pipeline._check", lambda *_: None)
    monkeypatch.setattr("coterie.cli.pipeline.pipeline.run_on_spark", lambda *_, **__: 7)
    printed = outcome(None, f"pipeline {name} orders -g archive --out {tmp_path}")
    assert documented(f"pipeline {name}", printed) == {"rows": 7, "table": str(tmp_path / "table")}


def test_history_and_export(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-0").mkdir()
    (tmp_path / "__consumer_offsets-0" / "00000000000000000000.log").touch()
    printed = outcome(None, f"pipeline history --from-log {tmp_path} --out {tmp_path}")
    counts = documented("pipeline history", printed)
    assert counts["commits"] == 0
    assert {*counts} >= {"generations", "rebalances", "lag"}
    ranking = documented("pipeline fleet", outcome(None, f"pipeline fleet --history {tmp_path}"))
    assert (ranking["groups"], ranking["rows"]["fleet_groups"]) == ([], 0)
    monkeypatch.setattr("coterie.pipeline.export.export", lambda *_: {"commits": 3})
    (tmp_path / "progress.json").write_text("{}")
    printed = outcome(None, f"pipeline export --history {tmp_path} --format delta --out {tmp_path}")
    assert documented("pipeline export", printed) == {"commits": 3}


def test_a_group_as_it_was(world: LocalBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    group = world.broker.groups.group("crew")
    monkeypatch.setattr("coterie.pipeline.history.state.group_from_tables", lambda *_: group)
    (tmp_path / "progress.json").write_text("{}")
    state = documented("pipeline as-of", outcome(None, f"pipeline as-of crew --history {tmp_path}"))
    assert state["members"]
    assert state["offsets"]


def test_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("coterie.console.history_page.sections", lambda *_: [Section("Owners", "", Markup())])
    monkeypatch.setattr("coterie.console.history_page.summary", lambda *_: "")
    (tmp_path / "progress.json").write_text("{}")
    printed = outcome(None, f"pipeline report crew --history {tmp_path} --out {tmp_path}")
    assert documented("pipeline report", printed) == {"page": str(tmp_path / "report.html")}


def test_what_if(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """tests/pipeline/history/test_what_if.py compares the columns with Spark's."""
    measures = {f"{name}{end}": 1 for name in MEASURES for end in ("", "_low", "_high")}
    row = {"setting": 0, **dataclasses.asdict(WhatIfSetting()), **measures, "rebalances_avoided": 0.5, "seeds": 1}
    row |= dict.fromkeys(("mean_detection_ms", "mean_detection_ms_low", "mean_detection_ms_high"))
    monkeypatch.setattr("coterie.cli.pipeline.history_pages.run_on_spark", lambda *_: ([{}], [row]))
    (tmp_path / "trace").write_text("0,add,a\n")
    printed = outcome(None, f"pipeline what-if --churn {tmp_path}/trace --out {tmp_path}")
    assert documented("pipeline what-if", printed)["runs"] == 1


def test_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        _write_results([Check("nothing lost", True, "3 of 3")], tmp_path, 1.25, as_json=True)
    assert documented("demo", capsys.readouterr().out)["right"]


# -- the comparison itself ---------------------------------------------------------------------------------------------


class _Row(TypedDict):
    name: str
    share: float
    owner: str | None
    note: NotRequired[str]
    parts: list[dict[str, int]]


RIGHT: dict[str, Any] = {"name": "a", "share": 1, "owner": None, "parts": [{"x": 1}]}


def test_a_document_of_the_shape_passes() -> None:
    assert not list(differing(_Row, RIGHT | {"note": "n", "share": 0.5}, "row"))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": 1}, "row.name is 1, not of type str"),
        ({"share": True}, "row.share is True, no number"),
        ({"owner": 3}, "row.owner is 3, not of type str"),
        ({"note": None}, "row.note is None, not of type str"),
        ({"parts": [{"x": 1.0}]}, "row.parts[0].x is 1.0, not of type int"),
        ({"parts": {}}, "row.parts is {}, not of type list"),
        ({"other": 1}, "row has other, which is not documented"),
    ],
)
def test_a_document_of_another_shape_is_seen(change: dict[str, Any], sentence: str) -> None:
    assert sentence in list(differing(_Row, RIGHT | change, "row"))
    assert list(differing(_Row, {k: v for k, v in RIGHT.items() if k not in change} | change, "row"))


def test_a_missing_field_is_seen() -> None:
    for name in RIGHT:
        assert list(differing(_Row, {k: v for k, v in RIGHT.items() if k != name}, "row")) == [f"row has no {name}"]
    explained = {"group": "g"}
    assert "why has no verdict" in list(differing(GroupExplanation, explained, "why"))
