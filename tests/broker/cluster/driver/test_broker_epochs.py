"""Broker epochs (KIP-380): Kafka's BrokerEpochIntegrationTest, and the end of a controller, by their names."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from coterie.broker.requests.pending import Pending
from coterie.controller import encoding, nodes
from coterie.controller.elected.office import ActiveController
from coterie.controller.requests import ControlRequest, LeaderAndIsr, StopReplica, UpdateMetadata
from coterie.machines.script import Steps
from coterie.replication.states import PartitionState, StoppedReplica
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrRequest
from coterie.wire.messages.brokers.stop_replica import StopReplicaRequest
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest
from coterie.zookeeper import paths
from coterie.zookeeper.operations import Read, Znode
from tests.awaiting import until
from tests.broker.cluster.harness import ORDERS, Cluster, RunningBroker, running


def registered_epoch(cluster: Cluster, broker: int) -> int:
    """As ZooKeeper has it: the transaction that made the broker's node."""
    node = cluster.zookeeper.apply(Read(paths.broker(broker)))
    assert isinstance(node, Znode)
    return node.created


async def test_a_broker_knows_its_epoch() -> None:
    """testReplicaManagerBrokerEpochMatchesWithZk; also after a restart."""
    async with running(brokers=2) as cluster:
        await cluster.controller()
        first = registered_epoch(cluster, 2)
        for number, broker in cluster.brokers.items():
            assert broker.member.manager.replicas.broker_epoch == registered_epoch(cluster, number)
        await cluster.brokers[2].stop()
        await cluster.brokers[2].start()
        assert cluster.brokers[2].member.manager.replicas.broker_epoch == registered_epoch(cluster, 2) > first


def receive(broker: RunningBroker, request: ControlRequest) -> Pending:
    """A request of the controller, through its bytes."""
    message, _, version = encoding.message_of(request)
    received = type(message).decode(message.encode(version), version)
    match received:
        case LeaderAndIsrRequest():
            return broker.member.control.leader_and_isr(received)
        case UpdateMetadataRequest():
            return broker.member.control.update_metadata(received)
        case StopReplicaRequest():
            return broker.member.control.stop_replica(received)
    raise AssertionError(received)


@pytest.mark.parametrize(
    "ahead",
    [
        pytest.param(0, id="testControlRequestWithCorrectBrokerEpoch"),
        pytest.param(-1, id="testControlRequestWithStaleBrokerEpoch"),
        pytest.param(1, id="testControlRequestWithNewerBrokerEpoch"),
    ],
)
async def test_control_request_with_broker_epoch(ahead: int) -> None:
    """Broker 2 is to lead, is told of it, and loses its replica. A newer epoch is of a registration that the broker does not
    know of yet: Kafka's carries the request out at once, here it waits for that moment, when all roles end."""
    async with running(brokers=2) as cluster:
        cluster.create_topic({0: (1, 2)})
        await cluster.leader()
        await until(lambda: ORDERS in cluster.brokers[2].broker.cluster.states, "the metadata of broker 2")
        broker, epoch = cluster.brokers[2], (await cluster.controller()).member.manager.replicas.controller_epoch
        replicas, view = broker.member.manager.replicas, broker.broker.cluster
        registrations = {n: nodes.broker("127.0.0.1", 9090 + n, None, 0) for n in (1, 2)}

        async def respond(request: ControlRequest, is_applied: Callable[[], bool]) -> None:
            pending = receive(broker, request)
            if ahead > 0:
                assert pending.response is None
                assert not is_applied()
                broker.member.manager.registered(request.broker_epoch)
                broker.member.control.registered()
            await until(lambda: pending.response is not None, "the response")
            code = getattr(pending.response, "error_code", None)
            assert (code, is_applied()) == (ErrorCode.STALE_BROKER_EPOCH if ahead < 0 else ErrorCode.NONE, ahead >= 0)

        def sender() -> tuple[int, int, int, int]:
            assert replicas.broker_epoch is not None
            return 2, replicas.broker_epoch + ahead, 9, epoch

        states = {ORDERS: PartitionState(2, 1, (1, 2), epoch, 0, (1, 2))}
        await respond(LeaderAndIsr(*sender(), states, leaders=registrations), broker.leads)
        await respond(UpdateMetadata(*sender(), registrations, states), lambda: view.states[ORDERS].leader == 2)
        stopped = {ORDERS: StoppedReplica(2, delete=True)}
        await respond(StopReplica(*sender(), stopped), lambda: ORDERS not in broker.storage.logs)


async def test_handle_illegal_state_exception(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """testHandleIllegalStateException: a defect of the controller ends its broker, and another broker is elected."""
    async with running(brokers=3) as cluster:
        first = await cluster.controller()
        epoch = first.member.manager.replicas.controller_epoch
        failures: list[Exception] = []
        monkeypatch.setattr(first.member, "_report_failure", failures.append)

        def defective(office: ActiveController, path: str) -> Steps[None]:
            raise AssertionError("a defect")
            yield

        with monkeypatch.context() as patch, caplog.at_level(logging.CRITICAL):
            patch.setattr(ActiveController, "_changed", defective)
            cluster.create_topic({0: (1, 2, 3)})
            await until(lambda: failures, "the failure")
        assert [str(failure) for failure in failures] == ["a defect"]
        await first.kill()  # as `Broker` does then
        second = await cluster.controller(not_of=first.number)
        await until(lambda: second.member.manager.replicas.controller_epoch == epoch + 1, "the next epoch")
        await cluster.leader(not_of=first.number)
