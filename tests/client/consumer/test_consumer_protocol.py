"""Groups of the consumer protocol (KIP-848), made by confluent-kafka, as Admin and the commands show them. From eager to
cooperative in two rolling bounces, with real processes (KIP-429)."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer as ConfluentConsumer

from coterie.assignors.blobs import decode_assignment
from coterie.cli import main
from coterie.client import Admin, Advice, ConsumerGroupDescription, ErrorCode, GroupState, GroupType, KafkaError
from coterie.client.lint.lint import CHANGES, STATIC
from coterie.testing import LocalBroker

PATIENCE_S = 30.0
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
}
MEMBERS = 3


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker(QUICK) as running:
        running.create_topic("t", 6)
        running.produce("t", *(b"%d" % n for n in range(60)))
        yield running


class Crew:
    """Consumers of confluent-kafka that poll in turn. ``seen``: the records, by partition and offset."""

    def __init__(self, broker: LocalBroker) -> None:
        self.broker = broker
        self.consumers: list[ConfluentConsumer] = []
        self.seen: list[tuple[int, int]] = []

    def join(self, **settings: str) -> ConfluentConsumer:
        basic = {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "g", "group.protocol": "consumer"}
        consumer = ConfluentConsumer(basic | {"auto.offset.reset": "earliest"} | settings)
        consumer.subscribe(["t"])
        self.consumers.append(consumer)
        return consumer

    def poll_until(self, condition: Callable[[], bool]) -> None:
        ends_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < ends_s, [c.assignment() for c in self.consumers]
            for consumer in self.consumers:
                message = consumer.poll(0.02)
                if message is not None:
                    assert message.error() is None, message.error()
                    self.seen.append((message.partition(), message.offset()))

    def sizes(self) -> list[int]:
        return sorted(len(consumer.assignment()) for consumer in self.consumers)

    def leave(self, consumer: ConfluentConsumer) -> None:
        self.consumers.remove(consumer)
        consumer.close()


@pytest.fixture
def crew(broker: LocalBroker) -> Iterator[Crew]:
    members = Crew(broker)
    yield members
    for consumer in members.consumers:
        consumer.close()


def describe(broker: LocalBroker) -> ConsumerGroupDescription:
    async def ask() -> ConsumerGroupDescription:
        async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            return await admin.describe_consumer_group("g")

    return asyncio.run(ask())


def lint(broker: LocalBroker, *changes: str) -> list[Advice]:
    async def ask() -> list[Advice]:
        async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            return await admin.lint_group("g")

    wanted = [text for change in changes for text in CHANGES[change]]
    return [advice for advice in asyncio.run(ask()) if advice.change in wanted]


def coterie(broker: LocalBroker, *command: str) -> str:
    result = CliRunner().invoke(main, [*command, "--bootstrap-server", broker.bootstrap_servers])
    assert result.exit_code == 0, result.output
    return result.output


def test_members_come_and_go_and_every_record_is_read_once(broker: LocalBroker, crew: Crew) -> None:
    first = crew.join()
    crew.poll_until(lambda: crew.sizes() == [6])
    crew.join()
    crew.poll_until(lambda: crew.sizes() == [3, 3])
    crew.join()
    crew.poll_until(lambda: crew.sizes() == [2, 2, 2] and len(set(crew.seen)) == 60)
    crew.leave(first)
    crew.poll_until(lambda: crew.sizes() == [3, 3])
    broker.produce("t", *(b"%d" % n for n in range(60)))
    crew.poll_until(lambda: len(set(crew.seen)) == 120)


def test_a_group_is_described_with_its_epochs(broker: LocalBroker, crew: Crew) -> None:
    crew.join(**{"client.id": "one", "group.instance.id": "first"})
    crew.poll_until(lambda: crew.sizes() == [6])
    before = describe(broker).group_epoch
    crew.join(**{"client.id": "two"})
    crew.poll_until(lambda: crew.sizes() == [3, 3] and describe(broker).state is GroupState.STABLE)
    group = describe(broker)
    assert (group.type, group.protocol_type, group.partition_assignor) == (GroupType.CONSUMER, "consumer", "uniform")
    assert before is not None
    epoch = before + 1
    assert group.group_epoch == group.target_assignment_epoch == epoch
    assert sorted((m.client_id, m.group_instance_id, m.member_epoch) for m in group.members) == [
        ("one", "first", epoch),
        ("two", None, epoch),
    ]
    assert all(m.assignment == m.target_assignment and m.upgraded for m in group.members)
    assert sorted(tp.partition for tp in group.owners) == list(range(6))


def test_the_commands_show_it(broker: LocalBroker, crew: Crew) -> None:
    crew.join(**{"client.id": "one"})
    crew.poll_until(lambda: crew.sizes() == [6] and describe(broker).state is GroupState.STABLE)
    epoch = describe(broker).group_epoch
    line = coterie(broker, "groups", "describe", "g").partition("\n")[0]
    assert line == f"g: Stable, consumer protocol, epoch {epoch}, assignor uniform, 1 member"
    document = json.loads(coterie(broker, "groups", "describe", "g", "--json"))
    assert (document["group_epoch"], document["target_assignment_epoch"]) == (epoch, epoch)
    assert [(m["member_epoch"], m["partitions"], m["target_partitions"]) for m in document["members"]] == [
        (epoch, 6, 6)
    ]
    assert "g " in coterie(broker, "groups", "list")
    assert "each of 1 member has its partitions" in coterie(broker, "groups", "why", "g")
    advice = coterie(broker, "groups", "lint", "g")
    assert advice.count("the broker assigns") == 2
    assert STATIC in advice
    assert "done: every member uses the consumer protocol" in advice
    assert "the group becomes classic when the last of 1 consumer member leaves" in advice
    coterie(broker, "groups", "history", "g")


@pytest.mark.slow
def test_lint_of_a_group_that_goes_up_and_comes_back(broker: LocalBroker, crew: Crew) -> None:
    """Classic members, then of both protocols, then classic ones again: what lint calls safe is what happens."""
    crew.join(**{"client.id": "one", "group.protocol": "classic"})
    crew.poll_until(lambda: crew.sizes() == [6])
    (before,) = lint(broker, "consumer")
    assert (before.safe, before.why) == (True, "safe now, one member after the other")
    # The library is known by its name in ApiVersions, and new enough: neither too old nor unknown.
    assert {f.rule for f in before.findings} == {"settings_refused"}
    upgraded = crew.join(**{"client.id": "two"})
    crew.poll_until(lambda: crew.sizes() == [3, 3])
    (mixed, back) = lint(broker, "consumer", "classic")
    assert mixed.why == "under way: 1 of 2 members uses the consumer protocol"
    (classic,) = mixed.findings
    assert [m.partition("-")[0] for m in classic.members] == ["one"]
    assert (back.safe, [f.rule for f in back.findings]) == (True, ["consumer_members"])
    crew.leave(upgraded)
    crew.poll_until(lambda: crew.sizes() == [6])
    assert describe(broker).type is GroupType.CLASSIC


def test_lint_of_a_group_under_a_policy_without_upgrades() -> None:
    with LocalBroker(QUICK | {"group.consumer.migration.policy": "disabled"}) as broker:
        broker.create_topic("t", 2)
        crew = Crew(broker)
        crew.join(**{"client.id": "one", "group.protocol": "classic"})
        crew.poll_until(lambda: crew.sizes() == [2])
        (advice,) = lint(broker, "consumer")
        assert not advice.safe
        assert "group.consumer.migration.policy=disabled" in advice.why
        result = CliRunner().invoke(
            main, ["groups", "lint", "g", "--change", "consumer", "-b", broker.bootstrap_servers]
        )
        assert result.exit_code == 1
        blocked, step = result.output.splitlines()[2:4]
        assert blocked == "         blocked by upgrade_policy"
        assert step.startswith(
            "           next: Set group.consumer.migration.policy=bidirectional on every broker, or "
        )
        for consumer in crew.consumers:
            consumer.close()


def test_offsets_are_reset_to_a_time_in_the_past(broker: LocalBroker, crew: Crew) -> None:
    """`groups reset --as-of` replays the records of the group as a broker does, of either protocol."""
    first = crew.join(**{"enable.auto.commit": "false"})
    crew.poll_until(lambda: len(set(crew.seen)) == 60)
    first.commit(asynchronous=False)
    crew.leave(first)
    reset = coterie(broker, "groups", "reset", "g", "--as-of", "2100-01-01", "--json")
    assert sum(row["to"] for row in json.loads(reset)) == 60


def test_members_are_removed_by_name(broker: LocalBroker, crew: Crew) -> None:
    crew.join(**{"group.instance.id": "first"})
    crew.poll_until(lambda: crew.sizes() == [6])

    async def remove() -> dict[str, ErrorCode]:
        async with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            return await admin.remove_members_from_consumer_group("g", ["first", "none"])

    assert asyncio.run(remove()) == {"first": ErrorCode.NONE, "none": ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_group_that_does_not_exist(broker: LocalBroker) -> None:
    with pytest.raises(KafkaError) as caught:
        describe(broker)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def start(broker: LocalBroker, number: int, assignors: str) -> subprocess.Popen[bytes]:
    settings = {
        "partition.assignment.strategy": assignors,
        "heartbeat.interval.ms": "100",
        "client.id": f"c{number}",
    }
    command = [sys.executable, "-m", "coterie", "consume", "t", "--group", "g", "-b", broker.bootstrap_servers]
    command += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def in_force(broker: LocalBroker) -> tuple[str | None, int]:
    """The assignor, and how many partitions are assigned."""
    group = broker.broker.groups.group("g")
    assert group is not None
    return group.protocol, sum(len(decode_assignment(m.assignment)) for m in group.members.values())


def until_in_force(broker: LocalBroker, assignor: str, partitions: int) -> None:
    wanted = f"{assignor} with {partitions} partitions is not in force"
    broker._until(lambda: in_force(broker) == (assignor, partitions), wanted, lambda: "", 20)


@pytest.mark.slow
def test_two_rolling_bounces_of_real_processes(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 6)
    processes = [start(coterie_broker, n, "range") for n in range(MEMBERS)]
    try:
        coterie_broker.until_stable("g", members=MEMBERS, timeout_s=30)
        until_in_force(coterie_broker, "range", 6)
        for assignors in ("cooperative-sticky,range", "cooperative-sticky"):
            for number, process in enumerate(processes):
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == 0
                coterie_broker.until_stable("g", members=MEMBERS - 1, timeout_s=30)
                processes[number] = start(coterie_broker, number, assignors)
                coterie_broker.until_stable("g", members=MEMBERS, timeout_s=30)
        until_in_force(coterie_broker, "cooperative-sticky", 6)
        assert all(process.poll() is None for process in processes), "nobody was refused"
    finally:
        for process in processes:
            process.terminate()
            process.wait(20)
