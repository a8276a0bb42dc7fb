"""A live streams group of two instances, with a standby of each task that has state, as the commands of `groups` show it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.testing import LocalBroker
from coterie.wire.messages.streams.streams_group_heartbeat import Subtopology, Topology
from tests.broker.groups.streams_members import StreamsThread, settle, streams_broker

WHOLE = {"active": 4, "standby": 2, "warmup": 0}


class Application:
    """The group "app": threads a and b of the processes p and q, each with two active tasks and a standby of the other's."""

    def __init__(self, broker: LocalBroker, a: StreamsThread, b: StreamsThread) -> None:
        self.broker, self.a, self.b = broker, a, b

    def run(self, line: str, code: int = 0) -> str:
        environment = {"COTERIE_BOOTSTRAP_SERVER": self.broker.bootstrap_servers, "COLUMNS": "200"}
        result = CliRunner(env=environment).invoke(main, ["groups", *line.split()], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result.output

    def json(self, line: str, code: int = 0) -> Any:
        return json.loads(self.run(f"{line} --json", code))


@pytest.fixture(scope="module")
def app() -> Iterator[Application]:
    with streams_broker({"group.streams.num.standby.replicas": "1"}) as (broker, socket):
        a, b = StreamsThread(socket, "a", "p"), StreamsThread(socket, "b", "q")
        settle(a, until=lambda: len(a.tasks.get("active", [])) == 4)
        settle(a, b, until=lambda: {role: len(a.tasks[role]) + len(b.tasks[role]) for role in a.tasks} == WHOLE)
        settle(a, b, until=lambda: True)  # the last of them is reconciled
        yield Application(broker, a, b)


def test_the_group_is_listed_as_streams(app: Application) -> None:
    (row,) = app.json("list")
    assert {k: row[k] for k in ("group", "state", "type", "protocol", "members")} == {
        "group": "app",
        "state": "Stable",
        "type": "Streams",
        "protocol": "sticky",
        "members": 2,
    }


def test_its_members_have_active_and_standby_tasks(app: Application) -> None:
    described = app.json("describe app")
    tasks = {m["member_id"]: m["tasks"] for m in described["members"]}
    assert sorted(t for m in tasks.values() for t in m["active"]) == ["0_0", "0_1", "1_0", "1_1"]
    assert sorted(t for m in tasks.values() for t in m["standby"]) == ["1_0", "1_1"]
    assert all(not set(m["active"]) & set(m["standby"]) for m in tasks.values())
    assert {m["process_id"] for m in described["members"]} == {"p", "q"}
    owners = {(p["topic"], p["partition"]): p["owner"] for p in described["partitions"]}
    assert sorted(owners) == [(t, p) for t in ("app-words-repartition", "lines") for p in (0, 1)]
    text = app.run("describe app")
    assert text.startswith("app: Stable, streams protocol, epoch ")
    assert "ACTIVE" in text
    assert "WARM-UP" in text


def test_its_history_names_what_moved_and_why(app: Application) -> None:
    lines = app.json("history app")
    assert [line["why"] for line in lines if line["event"] == "epoch_raised"] == [
        "a joined",
        "the partitions of a subscribed topic changed",
        "b joined",
    ]
    assert [line["moved_count"] for line in lines if line["event"] == "target_computed"] == [0, 0, 2]


def test_no_change_of_its_protocol_is_safe(app: Application) -> None:
    advices = app.json("lint app", 1)
    assert {a["safe"] for a in advices if a["change"] != "leave the group as it is"} == {False}
    assert "the broker assigns the tasks of a streams group" in app.run("lint app", 1)


@pytest.mark.parametrize("line", ["delete app", "reset app --topic lines --to earliest"])
def test_while_it_has_members_it_is_not_changed(app: Application, line: str) -> None:
    assert "NON_EMPTY_GROUP" in app.run(line, 1)


def test_an_empty_group_is_reset_and_deleted() -> None:
    with streams_broker() as (broker, socket):
        a = StreamsThread(socket, "a", "p")
        app = Application(broker, a, a)
        settle(a, until=lambda: len(a.tasks["active"]) == 4)
        a.leave()
        assert app.json("reset app --topic lines --to earliest") == [
            {"topic": "lines", "partition": n, "from": None, "to": 0} for n in (0, 1)
        ]
        assert app.run("delete app") == "deleted app\n"
        assert app.json("list") == []


def test_a_group_without_its_topics_says_which(app: Application) -> None:
    with streams_broker() as (broker, socket):
        a = StreamsThread(socket, "a", "p", topology=Topology(0, [Subtopology("0", ["nowhere"])]))
        a.beat()
        a.beat()
        alone = Application(broker, a, a)
        assert alone.run("why app").splitlines()[1] == "no member gets a task: Source topics nowhere are missing."
        assert alone.run("describe app").startswith(
            "app: NotReady, streams protocol, epoch 2, assignor sticky, 1 member"
        )
