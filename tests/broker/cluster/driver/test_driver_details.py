"""What only shows when a request is lost, late, early or large. A session's operations in the event loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from coterie.broker.cluster.peers.connections import PeerConnection
from coterie.broker.cluster.zookeeper.session import ClusterSession, ScriptTask, SessionEvents
from coterie.controller import encoding
from coterie.controller.requests import LeaderAndIsr
from coterie.controller.session_script import SessionScript
from coterie.machines.script import Steps
from coterie.replication.follower import Follower
from coterie.replication.states import PartitionState
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from coterie.zookeeper.operations import ConnectionLost, Operation, Read
from tests.awaiting import quiet, until
from tests.broker.cluster.harness import CONFIG, ORDERS, RunningBroker, running

LONG_WAIT = replace(CONFIG, replica_fetch_wait_max_ms=60_000)


async def test_a_request_of_the_controller_is_repeated_until_it_arrives() -> None:
    async with running() as cluster:
        controller = await cluster.controller()
        other = next(broker for broker in cluster.live() if broker is not controller)
        cluster.network.separate(controller.number, other.number)
        cluster.create_topic({0: (other.number,)})
        await until(cluster.state, "the controller's decision")
        await quiet()
        assert not other.leads()
        cluster.network.cut.clear()
        await until(other.leads, "a leader")


async def test_a_response_has_no_more_bytes_than_requested() -> None:
    async with running() as cluster:
        cluster.create_topic(dict.fromkeys(range(3), (1, 2, 3)))
        for number in range(3):
            leader = await cluster.leader(("orders", number))
            for _ in range(10):
                await leader.append(b"v" * 84, ("orders", number))  # 100 bytes with its header
        epoch = leader.member.manager.replicas.partitions[ORDERS].leader_epoch
        wanted = [FetchPartition(number, epoch, 0, partition_max_bytes=400) for number in range(3)]
        request = FetchRequest(
            replica_id=2, max_bytes=500, min_bytes=1, topics=[FetchTopic("orders", partitions=wanted)]
        )
        view = leader.broker.cluster.live[leader.number]
        connection = PeerConnection("test", 5_000)
        response = await connection.request((view.host, view.port), request, FetchResponse, 11)
        connection.close()
        assert [len(row.records or b"") for row in response.responses[0].partitions] == [400, 100, 0]


async def test_what_an_old_leader_still_sends_is_passed_over() -> None:
    """The response to a fetch that waited comes when its follower leads itself."""
    async with running(LONG_WAIT) as cluster:
        cluster.create_topic({0: (1, 2)})
        old, new = await cluster.leader(), cluster.brokers[2]
        await old.append(b"0")
        await cluster.until_equal(1, 2)
        await until(lambda: old.member.manager.watchers, "a fetch that waits")
        replicas = new.member.manager.replicas
        assert replicas.broker_epoch is not None
        state = PartitionState(2, replicas.partitions[ORDERS].leader_epoch + 1, (2,), 1, 0, (1, 2))
        new.member.manager.leader_and_isr(replicas.controller_epoch, replicas.broker_epoch, {ORDERS: state})
        await old.append(b"late", acks_all=False)
        await until(lambda: not new.member.fetchers._running, "the end of the fetcher")
        assert new.log().values == [b"0"]


class Hesitant(RunningBroker):
    """Opens its session when it is let."""

    may_register: asyncio.Event

    async def _open_session(self, events: SessionEvents) -> ClusterSession:
        await self.may_register.wait()
        return await super()._open_session(events)


async def test_a_request_before_the_registration_waits_for_it() -> None:
    async with running() as cluster:
        late = cluster.brokers[4] = Hesitant(cluster, 4)
        late.may_register = asyncio.Event()
        starting = asyncio.ensure_future(late.start())
        await until(lambda: late.is_running, "broker 4 to listen")
        port = next(port for port, number in cluster.network.broker_ids.items() if number == 4)
        connection = PeerConnection("test", 30_000)
        request = UpdateMetadataRequest(1, 0, 0)  # of a broker epoch before its own
        early = asyncio.ensure_future(connection.request(("127.0.0.1", port), request, UpdateMetadataResponse, 6))
        await quiet()
        assert not early.done()
        late.may_register.set()
        await starting
        assert (await early).error_code == ErrorCode.STALE_BROKER_EPOCH
        connection.close()


async def test_a_broker_that_registers_again_has_no_role_until_it_is_given_one() -> None:
    """A request for the new registration may come before the broker knows of it: it waits."""
    async with running() as cluster:
        cluster.create_topic({0: (1, 2, 3)})
        leader = await cluster.leader()
        member, partition = leader.member, ORDERS
        replicas = member.manager.replicas
        assert replicas.broker_epoch is not None
        again = replicas.broker_epoch + 1_000
        state = replace(replicas.partitions[partition].leading().state, leader=2 if leader.number != 2 else 3)
        states = {partition: replace(state, leader_epoch=state.leader_epoch + 1)}
        sent = LeaderAndIsr(leader.number, again, 1, replicas.controller_epoch, states)
        message, _, _ = encoding.message_of(sent)
        assert isinstance(message, LeaderAndIsrRequest)
        pending = member.control.leader_and_isr(message)
        assert pending.response is None
        assert leader.leads()
        member.manager.registered(again)
        assert leader.role() is None
        member.control.registered()
        assert isinstance(leader.role(), Follower)
        assert isinstance(pending.response, LeaderAndIsrResponse)


async def test_a_session_that_refuses_at_once_does_not_hold_the_loop() -> None:
    """The machine repeats the operation, since it has not heard that the connection is lost."""
    requests: list[Operation] = []

    async def refused(operation: Operation) -> object:
        requests.append(operation)
        raise ConnectionLost

    def life() -> Steps[None]:
        yield from machine.perform(Read("/"))

    machine = SessionScript(life(), 0)
    task = asyncio.ensure_future(ScriptTask(machine, refused, lambda _: None, lambda: 0).run())
    for _ in range(100):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(requests) == 1
