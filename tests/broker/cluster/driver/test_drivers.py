"""Several brokers over sockets: registration, controller, leaders, replication, and what happens when one of them fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from coterie.broker.cluster.peers.connections import PeerConnection
from coterie.replication.states import ReplicaError, ReplicaRefusal
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from tests.awaiting import until
from tests.broker.cluster.harness import CONFIG, ORDERS, append, running

ALL = {0: (1, 2, 3)}


async def test_brokers_register_and_elect_one_controller() -> None:
    async with running() as cluster:
        controller = await cluster.controller()
        await until(lambda: {b.broker.cluster.controller_id for b in cluster.live()} == {controller.number})
        for broker in cluster.live():
            view = broker.broker.cluster
            assert {n: (b.host, b.rack) for n, b in view.live.items()} == {
                n: ("127.0.0.1", f"rack-{n}") for n in (1, 2, 3)
            }
        assert len([b for b in cluster.live() if b.member.driver.is_controller]) == 1


async def test_replicas_become_equal_and_appends_wait_for_the_isr() -> None:
    async with running() as cluster:
        cluster.create_topic({0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)})
        for number in range(3):
            leader = await cluster.leader(("orders", number))
            assert leader.number == number + 1
            for value in range(20):
                await leader.append(b"%d" % value, ("orders", number))
            assert leader.member.manager.replicas.leader(("orders", number)).high_watermark == 20
        for number in range(3):
            await cluster.until_equal(1, 2, 3, partition=("orders", number))
        states = [b.broker.cluster.states["orders", 1] for b in cluster.live()]
        assert [(s.leader, s.isr, s.replicas) for s in states] == [(2, (2, 3, 1), (2, 3, 1))] * 3


async def test_a_waiting_fetch_is_answered_by_an_append() -> None:
    """Not at the end of replica.fetch.wait.max.ms, which is longer here than the test waits."""
    async with running(replace(CONFIG, replica_fetch_wait_max_ms=60_000)) as cluster:
        cluster.create_topic(ALL)
        leader = await cluster.leader()
        async with asyncio.timeout(10):
            for value in range(50):
                await leader.append(b"%d" % value)
        await until(lambda: all(b.log().end_offset == 50 for b in cluster.live()))


async def test_large_logs_come_in_pieces() -> None:
    """A response has replica.fetch.response.max.bytes at most, and a partition of it replica.fetch.max.bytes."""
    small = replace(CONFIG, replica_fetch_max_bytes=600, replica_fetch_response_max_bytes=1_000)
    async with running(small) as cluster:
        cluster.create_topic(dict.fromkeys(range(4), (1, 2, 3)))
        for number in range(4):
            leader = await cluster.leader(("orders", number))
            for value in range(40):
                await leader.append(b"%d" % value * 100, ("orders", number), acks_all=False)
        for number in range(4):
            await cluster.until_equal(1, 2, 3, partition=("orders", number))


async def test_the_leader_dies_and_comes_back() -> None:
    async with running() as cluster:
        cluster.create_topic(ALL)
        first = await cluster.leader()
        for value in range(5):
            await first.append(b"%d" % value)
        await first.kill()
        second = await cluster.leader()
        assert second.number == 2
        state = cluster.state()
        assert state is not None
        assert state.leader_epoch == 1
        await second.append(b"after")
        await first.start()
        await until(lambda: cluster.isr() == {1, 2, 3}, "the ISR to be whole")
        await cluster.until_equal(1, 2, 3)
        assert first.log().values == [b"0", b"1", b"2", b"3", b"4", b"after"]
        assert not first.leads()


async def test_what_only_the_old_leader_has_is_truncated() -> None:
    async with running() as cluster:
        cluster.create_topic(ALL)
        first = await cluster.leader()
        await first.append(b"kept")
        await cluster.until_equal(1, 2, 3)
        cluster.network.separate(1, 2, 3)
        await first.append(b"lost", acks_all=False)
        assert first.storage.visible[ORDERS] == 1
        await first.kill()
        second = await cluster.leader()
        await second.append(b"instead")
        cluster.network.cut.clear()
        await first.start()
        await cluster.until_equal(1, 2, 3)
        assert [b.log().values for b in cluster.live()] == [[b"kept", b"instead"]] * 3


async def test_the_isr_shrinks_and_expands() -> None:
    async with running() as cluster:
        cluster.create_topic(ALL)
        leader = await cluster.leader()
        cluster.network.separate(3, 1, 2)
        await leader.append(b"two have it")
        await until(lambda: cluster.isr() == {1, 2}, "broker 3 to leave the ISR")
        assert cluster.brokers[2].log().values == [b"two have it"]
        cluster.network.cut.clear()
        await until(lambda: cluster.isr() == {1, 2, 3}, "broker 3 to join the ISR")
        await cluster.until_equal(1, 2, 3)
        # The controller's UpdateMetadata follows the notification of the change.
        await until(lambda: all(set(b.broker.cluster.states[ORDERS].isr) == {1, 2, 3} for b in cluster.live()))


async def test_too_few_replicas_refuse_an_append() -> None:
    async with running() as cluster:
        cluster.create_topic(ALL)
        await cluster.leader()
        await cluster.brokers[2].kill()
        await cluster.brokers[3].kill()
        leader = cluster.brokers[1]

        async def refused() -> bool:
            try:
                append(leader.member.manager, ORDERS, b"?", lambda _: None)
            except ReplicaRefusal as refusal:
                return refusal.error is ReplicaError.NOT_ENOUGH_REPLICAS
            return False

        await until(refused, "NOT_ENOUGH_REPLICAS")


async def test_a_controlled_shutdown_moves_the_leaders_first() -> None:
    async with running() as cluster:
        cluster.create_topic(ALL)
        first = await cluster.leader()
        await first.append(b"0")
        await first.stop()
        # Without its session having to expire: its leader has moved by now, and its node is gone.
        state = cluster.state()
        assert state is not None
        assert (state.leader, state.leader_epoch, 1 in state.isr) == (2, 1, False)
        assert first.storage.checkpointed[ORDERS] == 1
        second = await cluster.leader()
        await second.append(b"1")
        await first.start()
        await until(lambda: cluster.isr() == {1, 2, 3}, "the ISR to be whole")
        await cluster.until_equal(1, 2, 3)


async def test_a_broker_that_lost_power_leaves_the_isr_and_joins_again() -> None:
    """With min.insync.replicas=2 nobody else takes it out; its leader learns of it by UpdateMetadata."""
    async with running() as cluster:
        cluster.create_topic({0: (1, 2)})
        leader = await cluster.leader()
        await leader.append(b"0")
        await cluster.brokers[2].kill()
        await until(lambda: 2 not in leader.broker.cluster.live, "the end of the session")
        assert cluster.isr() == {1, 2}
        version = leader.member.manager.replicas.leader(ORDERS).state.version
        await cluster.brokers[2].start(lost_power=True)
        await until(lambda: cluster.isr() == {1, 2}, "the ISR to be whole")

        def is_known() -> bool:
            state = leader.member.manager.replicas.leader(ORDERS).state
            return set(state.isr) == {1, 2} and state.version >= version + 2

        await until(is_known, "a departure and a join that the leader knows")
        await leader.append(b"1")
        await cluster.until_equal(1, 2)


async def test_another_controller_goes_on() -> None:
    async with running() as cluster:
        cluster.create_topic(ALL)
        first = await cluster.controller()
        epoch = first.member.manager.replicas.controller_epoch
        await first.kill()
        second = await cluster.controller()
        assert second.number != first.number
        cluster.create_topic({0: (2, 3)}, "later")
        leader = await cluster.leader(("later", 0))
        await leader.append(b"0", ("later", 0))
        assert second.member.manager.replicas.controller_epoch == epoch + 1


async def test_a_leader_that_is_cut_off_changes_nothing() -> None:
    """From ZooKeeper and from the others: it goes on as a leader, and acknowledges nothing."""
    async with running() as cluster:
        cluster.create_topic(ALL)
        first = await cluster.leader()
        await first.append(b"0")
        first.session.cut_off()
        cluster.network.separate(1, 2, 3)
        doomed = asyncio.ensure_future(first.append(b"lost"))
        second = await cluster.leader(not_of=1)
        await second.append(b"1")
        await cluster.until_equal(2, 3)
        assert first.leads()
        assert not doomed.done()
        cluster.network.cut.clear()
        first.session.heal()
        with pytest.raises(ReplicaRefusal):
            await doomed
        await until(lambda: cluster.isr() == {1, 2, 3}, "the ISR to be whole")
        await cluster.until_equal(1, 2, 3)
        assert first.log().values == [b"0", b"1"]


async def test_older_epochs_of_controller_and_broker_are_refused() -> None:
    async with running() as cluster:
        broker = cluster.brokers[1]
        await cluster.controller()
        replicas = broker.member.manager.replicas
        await until(lambda: replicas.controller_epoch > 0)
        connection = PeerConnection("test", 5_000)
        view = broker.broker.cluster
        address = view.live[1].host, view.live[1].port
        assert replicas.broker_epoch is not None
        for controller_epoch, broker_epoch, code in (
            (replicas.controller_epoch - 1, replicas.broker_epoch, ErrorCode.STALE_CONTROLLER_EPOCH),
            (replicas.controller_epoch, replicas.broker_epoch - 1, ErrorCode.STALE_BROKER_EPOCH),
        ):
            request = UpdateMetadataRequest(9, controller_epoch, broker_epoch)
            response = await connection.request(address, request, UpdateMetadataResponse, 6)
            assert response.error_code == code
        connection.close()
        assert len(view.live) == 3
