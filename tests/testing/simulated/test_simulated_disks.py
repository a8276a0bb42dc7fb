"""Disks of a simulated cluster: what is on them when a response comes, and a broker that cannot make a log."""

from __future__ import annotations

import pytest

from coterie.client import Admin, Consumer, KafkaError, Producer
from coterie.simulation.disk import StoredFile
from coterie.testing import simulate
from coterie.testing.simulated import SimulatedWorld

EACH_APPEND = {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}
BROKERS = ("broker-1", "broker-2", "broker-3")


def unsynced(world: SimulatedWorld, folder: str) -> list[str]:
    """The segments of that partition of which a loss of power would take something, with their brokers."""
    segments = [(host, path, file) for host in BROKERS for path, file in world.disk(host).files.items()]
    return [
        f"{host}: {path}"
        for host, path, file in segments
        if path.startswith(folder)
        and path.endswith(".log")
        and isinstance(file, StoredFile)
        and file.synced < len(file.data.rstrip(b"\0"))
    ]


async def produce(servers: str) -> None:
    async with Producer({"bootstrap.servers": servers, "acks": "all", "enable.idempotence": False}) as producer:
        await (await producer.send("orders", b"one", partition=0))


async def commit(servers: str) -> None:
    async with Admin({"bootstrap.servers": servers}) as admin:
        await admin.alter_consumer_group_offsets("billing", {("orders", 0): 1})


def test_what_is_acknowledged_is_on_the_disks_of_all_replicas_in_sync_where_each_append_is_synced() -> None:
    """Followers reported records to their leader that they had not synced: a power cut of all machines lost them."""
    with simulate(seed=1) as world:
        broker = world.broker(EACH_APPEND, brokers=3)
        broker.create_topic("orders", 1)
        world.run(produce(broker.bootstrap_servers))
        assert not unsynced(world, "orders-0/")


def test_committed_offsets_are_on_the_disks_of_all_replicas_in_sync_where_each_append_is_synced() -> None:
    """The coordinator did not sync its own log before it answered: as the next leader its log won."""
    with simulate(seed=1) as world:
        broker = world.broker(EACH_APPEND, brokers=3)
        broker.create_topic("orders", 1)
        world.run(commit(broker.bootstrap_servers))
        assert not unsynced(world, "__consumer_offsets-0/")


def test_a_broker_of_a_cluster_that_cannot_make_a_log_ends_so_that_others_lead() -> None:
    """It went on, and the partitions that it alone had in sync had no leader any more."""
    with simulate(seed=1) as world:
        broker = world.broker(brokers=3)
        world.disk("broker-2").full = True
        broker.create_topic("orders", 3)
        world.until(lambda: not broker.is_alive(2), "the end of broker 2")
        world.disk("broker-2").mend()
        broker.restart(2)
        world.until(lambda: broker.cluster.in_sync("orders", 0) == {1, 2, 3}, "all in sync")


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_broker_may_die_in_a_write_of_its_shutdown(brokers: int) -> None:
    """The end of its process was raised in the test."""
    with simulate(seed=1) as world:
        broker = world.broker(brokers=brokers)
        broker.create_topic("orders", 1)
        world.disk("broker-1").dies_in = 1
        broker.stop(1 if brokers > 1 else None)
        assert not broker.is_alive(1)


def test_a_shutdown_of_a_broker_that_dies_meanwhile_times_out() -> None:
    """In an operation of another of its tasks: nothing ended it, and time ran on for ever."""
    with simulate(seed=1) as world:
        broker = world.broker(brokers=3)
        world.loop.call_later(0.001, world.processes["broker-1"].kill)
        with pytest.raises(TimeoutError):
            broker.stop(1)
        assert not broker.is_alive(1)


def test_a_broker_whose_machine_lost_power_may_start_for_long() -> None:
    """It leaves the ISR of each of its partitions first, by round trips to ZooKeeper."""
    with simulate(seed=1) as world:
        broker = world.broker(brokers=3)
        broker.create_topic("orders", 200)
        world.network.faults.max_latency_s = 0.1
        broker.power_cut(2)
        broker.restart(2)
        assert broker.is_alive(2)


@pytest.mark.parametrize("brokers", [1, 2])
def test_what_a_failed_sync_left_out_is_written_again(brokers: int) -> None:
    """The system takes its pages for written: the next process read them, its own syncs succeeded, and a power cut left a hole
    before what it had acknowledged, which went with the records behind it."""
    with simulate(seed=1) as world:
        broker = world.broker({"log.flush.interval.messages": "1", "default.replication.factor": "1"}, brokers=brokers)
        broker.create_topic("t", 1)
        broker.produce("t", b"a")
        led_by = broker.cluster.leader("t", 0) if brokers > 1 else None
        number = 1 if led_by is None else led_by.broker_id
        disk = world.disk(f"broker-{number}")
        disk.failing_syncs = 1
        server = {"bootstrap.servers": broker.bootstrap_servers}
        short = {"delivery.timeout.ms": 3_000, "request.timeout.ms": 1_000, "linger.ms": 0}

        async def send(value: bytes) -> None:
            async with Producer(server | short) as producer:
                await producer.send_and_wait("t", value, partition=0)

        async def read() -> list[bytes | None]:
            async with Consumer(server | {"auto.offset.reset": "earliest"}) as consumer:
                await consumer.assign([("t", 0)])
                values: list[bytes | None] = []
                while values[-1:] != [b"c"]:
                    values += [record.value for records in (await consumer.poll(200)).values() for record in records]
                return values

        with pytest.raises(KafkaError):
            world.run(send(b"b"), 60)
        assert not broker.is_alive(number)
        disk.mend()
        broker.restart(number)
        world.run(send(b"c"), 60)
        broker.power_cut(number)
        broker.restart(number)
        assert world.run(read(), 60)[0] == b"a"


def test_what_a_power_cut_has_taken_is_a_finding_of_a_broker_without_a_folder(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with simulate(seed=1) as world:
        broker = world.broker()
        broker.create_topic("orders", 1)
        world.run(commit(broker.bootstrap_servers))
        broker.power_cut()
        broker.restart()
    assert any(line.startswith("inconsistencies in memory: ") for line in caplog.messages), caplog.messages


def test_a_broker_that_dies_while_a_test_looks_at_a_group() -> None:
    """The first look at a group makes the topic of the offsets (seed 6976 of the programs)."""
    with simulate() as world:
        broker = world.broker()
        world.disk("broker-1").dies_in = 1
        assert broker.group_now("billing") is None
        broker.restart()
        broker.create_topic("orders", 1)
        assert broker.committed_now("billing") == {}
