"""`topics create|describe|elect|reassign` in a cluster of three brokers, and the plans of `reassign`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given

from coterie.cli import main
from coterie.cli.topics.topic_replicas import plan_document, plan_of, plan_over
from coterie.client import TopicPartition
from coterie.client.blocking import BlockingAdmin
from coterie.testing import LocalBroker
from tests.awaiting import until_in_thread
from tests.text.hostile_json import DEEP, values

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[LocalBroker]:
    with LocalBroker(brokers=3) as brokers:
        yield brokers


def coterie(broker: LocalBroker, line: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, [*line.split(), "-b", broker.bootstrap_servers])
    assert result.exit_code == code, result.output
    return result.output


def rows(output: str) -> list[list[str]]:
    """The cells of a table, without its headings."""
    return [line.split() for line in output.partition("\n\n")[0].splitlines()[1:]]


def assigned(broker: LocalBroker, *replicas: list[int]) -> None:
    """The topic orders with these replicas of its partitions, once they have leaders."""
    with BlockingAdmin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.create_topic("orders", assignments=dict(enumerate(replicas)))
    for partition in range(len(replicas)):
        broker.leader_of("orders", partition)


# -- a cluster ----------------------------------------------------------------------------------------------------------


def test_a_topic_is_created_with_replicas_and_described(cluster: LocalBroker) -> None:
    coterie(cluster, "topics create orders -p 2 --replication-factor 2")
    cluster.leader_of("orders", 1)
    until_in_thread(lambda: "NOTE" not in coterie(cluster, "topics describe orders"), lambda: "notes")
    for _, leader, replicas, isr, start, end in rows(coterie(cluster, "topics describe orders")):
        assert (len(replicas.split(",")), sorted(isr.split(","))) == (2, sorted(replicas.split(",")))
        assert (leader, start, end) == (replicas.split(",")[0], "0", "0")
    assert "INVALID_REPLICATION_FACTOR" in coterie(cluster, "topics create many -r 4", code=1)


def test_replicas_that_are_behind_or_gone_are_noted(cluster: LocalBroker) -> None:
    assigned(cluster, [3, 1])
    with BlockingAdmin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        admin.create_topic("single", assignments={0: [3]})
        cluster.leader_of("single")
        cluster.kill(3)
        until_in_thread(
            lambda: admin.describe_topics(["single"])["single"].partitions[0].leader is None, "a leader remains"
        )

    def note(topic: str) -> str:
        return " ".join(rows(coterie(cluster, f"topics describe {topic}"))[0][6:])

    assert note("single") == "no leader; offline: 3"
    assert note("orders") == "under-replicated: 3; offline: 3"
    (orders,) = json.loads(coterie(cluster, "topics describe orders --json"))["partitions"]
    assert (orders["leader"], orders["leader_epoch"], orders["isr"], orders["offline"]) == (1, 1, [1], [3])
    (single,) = json.loads(coterie(cluster, "topics describe single --json"))["partitions"]
    assert (single["leader"], single["start"], single["end"]) == (-1, None, None)


def test_the_preferred_leader_is_elected(cluster: LocalBroker) -> None:
    assigned(cluster, [2, 1], [1, 2])
    cluster.stop(2)
    assert cluster.leader_of("orders") == 1
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in coterie(cluster, "topics elect orders -p 0", code=1)
    cluster.restart(2)
    elected = [["orders", "0", "elected"], ["orders", "1", "leads", "already"]]

    def is_elected() -> bool:
        """Once the controller knows that the replica is in sync."""
        result = CliRunner().invoke(main, ["topics", "elect", "orders", "-b", cluster.bootstrap_servers])
        return rows(result.output) == elected and result.exit_code == 0

    until_in_thread(is_elected, lambda: coterie(cluster, "topics describe orders"))
    until_in_thread(lambda: cluster.leader_of("orders") == 2, lambda: str(cluster.leader_of("orders")))
    assert coterie(cluster, "topics elect") == "no partition needs an election\n"
    assert rows(coterie(cluster, "topics elect orders --unclean"))[0] == ["orders", "0", "has", "a", "leader"]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in coterie(cluster, "topics elect orders -p 9", code=1)


def test_a_plan_is_printed_and_carried_out(cluster: LocalBroker, tmp_path: Path) -> None:
    assigned(cluster, [1], [1])
    cluster.produce("orders", b"one", partition=0)
    plan = tmp_path / "plan.json"
    plan.write_text(coterie(cluster, "topics reassign orders --brokers 2,3 -r 2 --dry-run --json"))
    assert cluster.in_sync("orders") == {1}
    assert rows(coterie(cluster, f"topics reassign --plan {plan}")) == [
        ["orders", "0", "1", "2,3"],
        ["orders", "1", "1", "3,2"],
    ]
    none = "no reassignment is in progress\n"
    until_in_thread(lambda: coterie(cluster, "topics reassign --list") == none, lambda: "the reassignment goes on")
    until_in_thread(lambda: cluster.leader_of("orders") == 2, lambda: str(cluster.leader_of("orders")))
    assert coterie(cluster, "topics reassign orders --cancel") == none


def test_a_rejected_partition_is_named_and_the_others_move(cluster: LocalBroker, tmp_path: Path) -> None:
    assigned(cluster, [1], [1])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_document({ORDERS: [2], TopicPartition("orders", 1): [9]})))
    output = coterie(cluster, f"topics reassign --plan {plan}", code=1)
    assert "Error: orders-1: INVALID_REPLICA_ASSIGNMENT" in output
    until_in_thread(lambda: cluster.leader_of("orders") == 2, lambda: str(cluster.leader_of("orders")))


def test_a_reassignment_is_listed_and_cancelled(cluster: LocalBroker) -> None:
    with BlockingAdmin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        admin.create_topic("single", assignments={0: [1]})
    cluster.leader_of("single")
    assigned(cluster, [1, 3])
    cluster.shrink_isr("orders", 0, to=[1])  # broker 3 no longer reaches the leader
    coterie(cluster, "topics reassign single --brokers 1,3 -r 2")
    (listed,) = json.loads(coterie(cluster, "topics reassign --list --json"))
    assert (listed["topic"], listed["adding"], listed["removing"]) == ("single", [3], [])
    assert rows(coterie(cluster, "topics reassign --cancel"))[0][-1] == "cancelled"
    assert coterie(cluster, "topics reassign --list") == "no reassignment is in progress\n"


# -- arguments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("elect --unclean", "--unclean loses records: name the topics"),
        ("elect a b -p 0", "--partition goes with one topic"),
        ("reassign orders", "needs one of --brokers, --plan, --list and --cancel"),
        ("reassign orders --list --cancel", "needs one of --brokers, --plan, --list and --cancel"),
        ("reassign --brokers 1", "--brokers needs the topics to move"),
        ("reassign orders --brokers 1,x", "takes the ids of brokers such as 1,2,3, not '1,x'"),
        ("reassign orders --brokers 1,1", "names a broker twice"),
        ("reassign orders --list -r 2", "--replication-factor goes with --brokers"),
        ("reassign orders --plan pyproject.toml", "names the topics itself"),
        ("reassign --plan pyproject.toml", "is not a reassignment plan; it must be JSON such as"),
    ],
)
def test_wrong_arguments_are_one_sentence(line: str, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[3])
    result = CliRunner().invoke(main, ["topics", *line.split(), "-b", "127.0.0.1:1"])
    assert (result.exit_code, sentence in result.output) == (2, True), result.output


# -- plans --------------------------------------------------------------------------------------------------------------


def test_a_plan_spreads_leaders_and_keeps_the_number_of_replicas() -> None:
    now = {TopicPartition("a", p): [1, 2] for p in range(6)} | {TopicPartition("b", 0): [1]}
    plan = plan_over([4, 5, 6], now, None)
    assert sorted(replicas[0] for tp, replicas in plan.items() if tp.topic == "a") == [4, 4, 5, 5, 6, 6]
    assert {len(set(replicas)) for tp, replicas in plan.items() if tp.topic == "a"} == {2}
    assert plan["b", 0] == [5]  # type: ignore[index]
    assert {len(set(replicas)) for replicas in plan_over([4, 5, 6], now, 3).values()} == {3}
    assert plan_of(json.dumps(plan_document(plan)), "p") == plan
    with pytest.raises(click.UsageError, match="a-0 shall have 2 replicas: name so many brokers"):
        plan_over([4], now, None)


def test_kafkas_own_plan_is_read() -> None:
    row = {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    assert plan_of(json.dumps({"version": 1, "partitions": [row]}), "p") == {ORDERS: [1, 2]}
    for changed, sentence in [
        ([row, row], "names a partition twice"),
        ([], "names no partition"),
        ([row | {"log_dirs": ["/disk", "any"]}], "names disks"),
        ([row | {"replicas": []}], "is not a reassignment plan"),
        ([row | {"replicas": ["1"]}], "is not a reassignment plan"),
        ([row | {"partition": True}], "is not a reassignment plan"),
    ]:
        with pytest.raises(click.UsageError, match=sentence):
            plan_of(json.dumps({"version": 1, "partitions": changed}), "p")
    with pytest.raises(click.UsageError, match="is not a reassignment plan"):
        plan_of(DEEP, "p")


@given(values, values)
def test_any_json_is_a_plan_or_one_sentence(partitions: Any, row: Any) -> None:
    for document in (partitions, {"partitions": partitions}, {"partitions": [row]}, {"partitions": [{"topic": "t"}]}):
        with contextlib.suppress(click.UsageError):
            plan_of(json.dumps(document), "p")
