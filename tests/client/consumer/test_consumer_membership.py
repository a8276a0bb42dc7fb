"""Our consumer with group.protocol=consumer (KIP-848), on a real socket. The machine alone is in tests/member and
tests/spec/consumer_member."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from coterie.cli import main
from coterie.client import (
    CommitFailedError,
    ConfigError,
    Consumer,
    FencedInstanceIdError,
    KafkaError,
    RebalanceListener,
    SubscriptionPattern,
    TopicPartition,
)
from coterie.client.blocking import BlockingConsumer
from coterie.client.settings.settings import client_settings
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.consumer.state import ConsumerStage
from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import until, until_in_thread
from tests.client.group import polled

QUICK_BROKER = {
    "group.consumer.min.heartbeat.interval.ms": 50,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": 20_000,
}
QUICK = {
    "group.protocol": "consumer",
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "fetch.max.wait.ms": 50,
    "auto.offset.reset": "earliest",
    "metadata.max.age.ms": 100,
}
COUNT = 60


SHORT_SESSION = {"group.consumer.session.timeout.ms": 2_000}


@contextlib.contextmanager
def broker_with_records(**settings: Any) -> Iterator[LocalBroker]:
    with LocalBroker(QUICK_BROKER | settings) as running:
        running.create_topic("t", 6)
        for number in range(COUNT):
            running.produce("t", b"%d" % number, partition=number % 6)
        yield running


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    with broker_with_records(**getattr(request, "param", {})) as running:
        yield running


def member(broker: LocalBroker, name: str = "one", **more: Any) -> Consumer:
    given = {key.replace("_", "."): value for key, value in more.items()}
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "client.id": name}
    return Consumer(settings | QUICK | given)


def machine_of(consumer: Consumer) -> ConsumerMemberMachine:
    assert consumer._membership is not None
    machine = consumer._membership.machine
    assert isinstance(machine, ConsumerMemberMachine)
    return machine


class Seen(RebalanceListener):
    """Every callback, as a text."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(f"assigned {sorted(p for _, p in partitions)}")

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(f"revoked {sorted(p for _, p in partitions)}")

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        self.calls.append(f"lost {sorted(p for _, p in partitions)}")


async def all_polled(consumers: list[Consumer], done: Callable[[], object], what: str) -> None:
    """Each polls in turn, until it is so."""

    async def once() -> bool:
        for consumer in consumers:
            await consumer.poll(10)
        return bool(done())

    await until(once, what)


def consumed(consumers: list[Consumer]) -> int:
    return sum(int(consumer.metrics()["records_consumed"]) for consumer in consumers)


def sizes(consumers: list[Consumer]) -> list[int]:
    return sorted(len(consumer.assignment()) for consumer in consumers)


# -- settings ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"group.protocol": "consumer", "session.timeout.ms": 10_000}, "session.timeout.ms"),
        ({"group.protocol": "CONSUMER", "heartbeat_interval_ms": 1_000}, "heartbeat.interval.ms"),
        ({"group.protocol": "consumer", "partition.assignment.strategy": "range"}, "partition.assignment.strategy"),
        ({"group.remote.assignor": "range"}, "group.remote.assignor"),
        ({"group.protocol": "Classic", "group.remote.assignor": "range"}, "group.remote.assignor"),
    ],
)
def test_a_setting_of_the_other_protocol_is_refused(settings: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError, match=f"{re.escape(name)} cannot be set with group.protocol="):
        client_settings(settings)


async def test_a_pattern_for_the_broker_needs_the_protocol(broker: LocalBroker) -> None:
    """testSubscribeToRe2jPatternNotSupportedForClassicConsumer"""
    async with member(broker, group_protocol="classic") as one:
        with pytest.raises(ConfigError, match=r"needs group\.protocol=consumer"):
            one.subscribe(SubscriptionPattern("t.*"))
        one.subscribe(["t"])
        await polled(one, lambda: len(one.assignment()) == 6)


# -- groups -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broker", [SHORT_SESSION], indirect=True, ids=["short session"])
async def test_a_group_of_three_of_which_one_dies(broker: LocalBroker) -> None:
    one, two, three = (member(broker, name) for name in ("one", "two", "three"))
    listener = Seen()
    one.subscribe(["t"], listener)
    await all_polled([one], lambda: len(one.assignment()) == 6, "one has everything")
    for other in (two, three):
        other.subscribe(["t"])
    crew = [one, two, three]
    await all_polled(crew, lambda: sizes(crew) == [2, 2, 2], "shares")
    assert one.generation == two.generation > 0
    await all_polled(crew, lambda: consumed(crew) == COUNT, "every record, once")
    for consumer in (one, two, three):
        await consumer.commit()
    assert three._membership is not None
    three._membership._thread.stop()
    for task in three._membership._tasks | {three._membership._driver}:
        task.cancel()  # type: ignore[union-attr]
    began_s = time.monotonic()
    await all_polled([one, two], lambda: sizes([one, two]) == [3, 3], "the others take over")
    assert time.monotonic() - began_s > 0.5, "not before its session timeout"
    assert listener.calls[0] == "assigned [0, 1, 2, 3, 4, 5]"
    assert not any(call.startswith("lost") for call in listener.calls)
    assert broker.committed("g") == {("t", p): 10 for p in range(6)}
    three._membership = three._committer.membership = three._loop.membership = None
    for consumer in (one, two, three):
        await consumer.close()
    assert broker.requested("JoinGroup") == broker.requested("LeaveGroup") == broker.requested("Heartbeat") == 0


async def test_what_moves_is_revoked_after_its_commit_and_the_rest_is_read_on(broker: LocalBroker) -> None:
    async with member(broker, "one") as one, member(broker, "two") as two:
        listener, of_two = Seen(), Seen()
        one.subscribe(["t"], listener)
        await all_polled([one], lambda: consumed([one]) == COUNT, "all read")
        two.subscribe(["t"], of_two)
        await all_polled([one, two], lambda: sizes([one, two]) == [3, 3], "shared")
        moved = sorted(p for _, p in two.assignment())
        assert f"revoked {moved}" in listener.calls
        assert of_two.calls[-1] == f"assigned {moved}"
        assert {p: broker.committed("g")["t", p] for p in moved} == dict.fromkeys(moved, 10)
        assert two.metrics()["records_consumed"] == 0, "two begins where one committed"


async def test_a_pattern_that_the_broker_matches(broker: LocalBroker) -> None:
    async with member(broker) as one:
        one.subscribe(SubscriptionPattern("t|u.*"))
        assert one.subscription() == set()
        await polled(one, lambda: len(one.assignment()) == 6, "t is assigned")
        broker.create_topic("u1", 2)
        broker.create_topic("v", 2)
        broker.jump(10_000)  # a pattern is not resolved again sooner
        await polled(one, lambda: len(one.assignment()) == 8, "the new topic is assigned")
        one.subscribe(SubscriptionPattern("v"))
        await polled(one, lambda: {t for t, _ in one.assignment()} == {"v"}, "the pattern is replaced")


async def test_a_pattern_that_is_none(broker: LocalBroker) -> None:
    async with member(broker) as one:
        one.subscribe(SubscriptionPattern("t("))
        with pytest.raises(KafkaError, match=r"INVALID_REGULAR_EXPRESSION.*RE2"):
            await polled(one, lambda: False)


async def test_a_compiled_pattern_is_matched_here(broker: LocalBroker) -> None:
    async with member(broker) as one:
        one.subscribe(re.compile("t|u.*"))
        await polled(one, lambda: len(one.assignment()) == 6)
        assert one.subscription() == {"t"}
        broker.create_topic("u1", 2)
        await polled(one, lambda: len(one.assignment()) == 8, "the new topic is assigned")


async def test_a_topic_that_does_not_exist_yet(broker: LocalBroker) -> None:
    async with member(broker) as one:
        one.subscribe(["new"])
        await polled(one, lambda: {t for t, _ in one.assignment()} == {"new"}, "it is created and assigned")


async def test_a_static_member_comes_back(broker: LocalBroker) -> None:
    async with member(broker, "two") as two:
        two.subscribe(["t"])
        one = member(broker, "one", group_instance_id="i")
        one.subscribe(["t"])
        await all_polled([one, two], lambda: sizes([one, two]) == [3, 3], "shared")
        before, epoch = one.assignment(), two.generation
        await one.close()
        again = member(broker, "one", group_instance_id="i")
        again.subscribe(["t"])
        await all_polled([again, two], lambda: again.assignment() == before, "it has its partitions again")
        assert two.generation == epoch, "nobody noticed"
        rival = member(broker, "rival", group_instance_id="i")
        rival.subscribe(["t"])
        with pytest.raises(KafkaError, match=r"UNRELEASED_INSTANCE_ID.*another member has this"):
            await polled(rival, lambda: False)
        await rival.close()
        await again.close()


async def test_a_remote_assignor(broker: LocalBroker) -> None:
    async with member(broker, group_remote_assignor="range") as one:
        one.subscribe(["t"])
        await polled(one, lambda: len(one.assignment()) == 6)
    async with member(broker, group_remote_assignor="sticky") as one:
        one.subscribe(["t"])
        with pytest.raises(KafkaError, match=r"UNSUPPORTED_ASSIGNOR.*group\.consumer\.assignors"):
            await polled(one, lambda: False)


def test_a_broker_without_the_protocol() -> None:
    async def story(broker: LocalBroker) -> None:
        async with member(broker) as one:
            one.subscribe(["t"])
            with pytest.raises(KafkaError, match=r"UNSUPPORTED_VERSION.*set group\.protocol=classic"):
                await polled(one, lambda: False)
            await one.unsubscribe()

    with LocalBroker({"group.coordinator.rebalance.protocols": "classic"}) as broker:
        asyncio.run(story(broker))


# -- faults -----------------------------------------------------------------------------------------------------------------


async def test_a_fenced_member_loses_everything_and_comes_back(broker: LocalBroker) -> None:
    async with member(broker) as one:
        listener = Seen()
        one.subscribe(["t"], listener)
        await polled(one, lambda: len(one.assignment()) == 6)
        broker.fail("ConsumerGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH, times=1)
        await polled(one, lambda: len(listener.calls) == 3 and len(one.assignment()) == 6, "it is back")
        everything = "[0, 1, 2, 3, 4, 5]"
        assert listener.calls == [f"assigned {everything}", f"lost {everything}", f"assigned {everything}"]
        await one.commit()


async def test_a_user_who_does_not_poll_loses_the_partitions(broker: LocalBroker) -> None:
    async with member(broker, "one", max_poll_interval_ms=300) as one, member(broker, "two") as two:
        listener = Seen()
        one.subscribe(["t"], listener)
        await polled(one, lambda: len(one.assignment()) == 6)
        two.subscribe(["t"])
        await polled(two, lambda: len(two.assignment()) == 6, "the other has everything")
        assert machine_of(one).stage == ConsumerStage.STALE
        with pytest.raises(CommitFailedError):
            await one.commit({("t", 0): 1})
        await all_polled([one, two], lambda: sizes([one, two]) == [3, 3], "it is back")
        lost = [call for call in listener.calls if call.startswith("lost")]
        assert sorted(re.findall(r"\d", " ".join(lost))) == list("012345"), (
            "a revocation under way is one of lost partitions"
        )
        assert not any(call.startswith("revoked") for call in listener.calls)


async def test_a_coordinator_that_moves(broker: LocalBroker) -> None:
    async with member(broker) as one:
        one.subscribe(["t"])
        await polled(one, lambda: len(one.assignment()) == 6)
        epoch = one.generation
        broker.fail("ConsumerGroupHeartbeat", ErrorCode.NOT_COORDINATOR, times=1)
        broker.fail("OffsetCommit", ErrorCode.NOT_COORDINATOR, times=1)
        broker.move_coordinator("g")
        await polled(one, lambda: one.metrics()["records_consumed"] == COUNT)
        await one.commit()
        assert one.generation == epoch
        assert broker.committed("g") == {("t", p): 10 for p in range(6)}


async def test_a_commit_before_a_revocation_in_a_stale_epoch_is_made_in_the_new_one(broker: LocalBroker) -> None:
    """testAutoCommitSyncBeforeRevocationRetriesOnRetriableAndStaleEpoch"""
    async with member(broker, auto_commit_interval_ms=10**6) as one, member(broker, "two") as two:
        one.subscribe(["t"])
        await polled(one, lambda: one.metrics()["records_consumed"] == COUNT)
        broker.fail("OffsetCommit", ErrorCode.STALE_MEMBER_EPOCH, times=2)
        two.subscribe(["t"])
        await all_polled([one, two], lambda: sizes([one, two]) == [3, 3], "two have three partitions each")
        assert broker.requested("OffsetCommit") == 3
        assert sum(broker.committed("g").values()) == COUNT


async def test_a_member_that_is_fenced_by_its_commit_before_a_revocation_has_lost_the_partitions(
    broker: LocalBroker,
) -> None:
    """testDelayedReconciliationResultDiscardedAfterCommitIfMemberRejoins: on_partitions_revoked is not called for them."""
    async with member(broker, auto_commit_interval_ms=10**6) as one, member(broker, "two") as two:
        listener = Seen()
        one.subscribe(["t"], listener)
        await polled(one, lambda: one.metrics()["records_consumed"] == COUNT)
        broker.fail("OffsetCommit", ErrorCode.UNKNOWN_MEMBER_ID)
        two.subscribe(["t"])
        await all_polled([one, two], lambda: sizes([one, two]) == [3, 3] and len(listener.calls) > 2, "it is back")
        assert [call.split()[0] for call in listener.calls] == ["assigned", "lost", "lost", "assigned"], listener.calls


async def test_an_unknown_member_is_fenced_by_its_commit(broker: LocalBroker) -> None:
    async with member(broker, enable_auto_commit=False) as one:
        listener = Seen()
        one.subscribe(["t"], listener)
        await polled(one, lambda: len(one.assignment()) == 6)
        broker.fail("OffsetCommit", ErrorCode.UNKNOWN_MEMBER_ID, times=1)
        with pytest.raises(CommitFailedError):
            await one.commit({("t", 0): 1})
        await polled(one, lambda: len(listener.calls) == 3 and len(one.assignment()) == 6, "it is back")
        assert listener.calls[1].startswith("lost")


async def test_a_replaced_instance_is_told(broker: LocalBroker) -> None:
    async with member(broker, group_instance_id="i") as one:
        one.subscribe(["t"])
        await polled(one, lambda: len(one.assignment()) == 6)
        broker.fail("ConsumerGroupHeartbeat", ErrorCode.FENCED_INSTANCE_ID, times=1)
        with pytest.raises(FencedInstanceIdError):
            await polled(one, lambda: False)


async def test_a_listener_that_raises_is_called_again(broker: LocalBroker) -> None:
    """The error comes out of the poll, and nothing is acknowledged until a call has succeeded."""

    class Raises(Seen):
        def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
            super().on_partitions_assigned(partitions)
            if len(self.calls) == 1:
                raise ValueError("not yet")

    async with member(broker) as one:
        listener = Raises()
        one.subscribe(["t"], listener)
        with pytest.raises(ValueError, match="not yet"):
            await polled(one, lambda: False)
        assert machine_of(one).stage == ConsumerStage.RECONCILING
        await polled(one, lambda: machine_of(one).stage == ConsumerStage.STABLE)
        assert listener.calls == ["assigned [0, 1, 2, 3, 4, 5]", "assigned []"]


async def test_heartbeats_go_out_while_the_loop_is_held(broker: LocalBroker) -> None:
    """A thread sends full ones; a target that one of their responses had is not missed."""
    async with member(broker, "one") as one, member(broker, "two") as two:
        one.subscribe(["t"])
        await polled(one, lambda: len(one.assignment()) == 6)
        assert one._membership is not None
        thread = one._membership._thread
        sent = thread.sent
        until_in_thread(lambda: thread.sent > sent + 1, "the thread sends while the loop is held")
        listener = Seen()
        one._callbacks.listener = listener
        two.subscribe(["t"])
        await all_polled([one, two], lambda: sizes([one, two]) == [3, 3], "shared")
        assert not any(call.startswith("lost") for call in listener.calls)


async def test_unsubscribe_and_close_leave(broker: LocalBroker) -> None:
    async with member(broker, "one") as one, member(broker, "two") as two:
        listener = Seen()
        one.subscribe(["t"], listener)
        two.subscribe(["t"])
        await all_polled([one, two], lambda: sizes([one, two]) == [3, 3], "shared")
        await one.unsubscribe()
        assert listener.calls[-1].startswith("revoked")
        await polled(two, lambda: len(two.assignment()) == 6, "at once, not after the session")
        one.subscribe(["t"], listener)
        await all_polled([one, two], lambda: sizes([one, two]) == [3, 3], "shared again")
        await one.close()
        await polled(two, lambda: len(two.assignment()) == 6)


# -- both protocols in one group --------------------------------------------------------------------------------------------


async def test_a_live_group_goes_up_and_down(broker: LocalBroker) -> None:
    """Classic members are replaced one by one, and back: every partition has an owner at the end of each step."""
    classic = {"group_protocol": "classic", "heartbeat_interval_ms": 50}
    old = [member(broker, name, **classic) for name in ("a", "b")]
    for consumer in old:
        consumer.subscribe(["t"])
    await all_polled(old, lambda: sizes(old) == [3, 3], "the classic group is stable")
    new = [member(broker, name) for name in ("c", "d")]
    crew = list(old)
    for at, consumer in enumerate(new):
        consumer.subscribe(["t"])
        crew.append(consumer)
        await all_polled(crew, lambda: sizes(crew) == [2, 2, 2], "both kinds share")
        leaver = old[at]
        crew.remove(leaver)
        await leaver.close()
        await all_polled(crew, lambda: sizes(crew) == [3, 3], "the leaver's partitions have owners")
    back = member(broker, "e", **classic)
    back.subscribe(["t"])
    crew.append(back)
    await all_polled(crew, lambda: sizes(crew) == [2, 2, 2], "a classic member joins the consumer group")
    for consumer in new:
        crew.remove(consumer)
        await consumer.close()
    await all_polled(crew, lambda: sizes(crew) == [6], "the group is classic again")
    assert back.generation > 0
    await back.commit()
    await back.close()


async def test_a_leave_that_gets_no_response_ends(broker: LocalBroker) -> None:
    one = member(broker)
    one.subscribe(["t"])
    await polled(one, lambda: len(one.assignment()) == 6)
    with broker.hold("ConsumerGroupHeartbeat"):
        began_s = time.monotonic()
        await one.close(timeout_ms=200)
        assert time.monotonic() - began_s < 2


async def test_the_member_id_is_the_same_after_a_fence(broker: LocalBroker) -> None:
    async with member(broker) as one:
        one.subscribe(["t"])
        await polled(one, lambda: len(one.assignment()) == 6)
        member_id = one.group_metadata().member_id
        broker.fail("ConsumerGroupHeartbeat", ErrorCode.UNKNOWN_MEMBER_ID, times=1)
        await until(lambda: machine_of(one).stage == ConsumerStage.FENCED, "it is fenced")
        await polled(one, lambda: machine_of(one).stage == ConsumerStage.STABLE)
        assert one.group_metadata().member_id == member_id


# -- faces ------------------------------------------------------------------------------------------------------------------


def test_the_blocking_consumer(broker: LocalBroker) -> None:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"} | QUICK
    with BlockingConsumer(settings) as one:
        one.subscribe(SubscriptionPattern("t"))
        values: set[bytes | None] = set()
        until_in_thread(
            lambda: values.update(r.value for rs in one.poll(50).values() for r in rs) or len(values) == COUNT,
            "every record",
        )
        one.commit()
    assert broker.committed("g") == {("t", p): 10 for p in range(6)}


def test_the_command_consume(broker: LocalBroker) -> None:
    command = ["consume", "t", "--group", "g", "--from-beginning", "--max-messages", str(COUNT)]
    command += ["--bootstrap-server", broker.bootstrap_servers, "--set", "group.protocol=consumer"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert sorted(done.stdout.split(), key=int) == [str(n) for n in range(COUNT)]
    assert broker.requested("ConsumerGroupHeartbeat") > 1
    refused = CliRunner().invoke(main, [*command, "--set", "session.timeout.ms=10000"])
    assert refused.exit_code != 0
    assert "session.timeout.ms cannot be set with group.protocol=consumer" in refused.output
