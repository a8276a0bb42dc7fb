"""What the controller of Apache Kafka 2.6.3 sends, replayed: every request that two brokers of ours received from it while
topics were created, moved to ours and back, enlarged and deleted, and brokers stopped, killed and started. The recording is
made again by `python -m coterie_conformance.cluster.recording`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.cluster.control_requests import ControlRequests
from coterie.broker.cluster.controller_driver import ControllerDriver
from coterie.broker.cluster.replicas.replica_manager import ReplicaManager
from coterie.broker.requests.pending import Pending
from coterie.controller import encoding
from coterie.replication.follower import Follower
from coterie.replication.leader import Leader
from coterie.replication.states import (
    LEADER_DURING_DELETE,
    PartitionState,
    ReplicaFetch,
    ReplicationConfig,
    TopicPartition,
)
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.brokers.leader_and_isr import LeaderAndIsrRequest
from coterie.wire.messages.brokers.stop_replica import StopReplicaRequest
from coterie.wire.messages.brokers.update_metadata import UpdateMetadataRequest
from coterie_conformance.cluster.recording import ReceivedRequest, read_recording
from tests.broker.cluster.harness import MemoryStorage, append

CONFIG = ReplicationConfig(replica_lag_time_max_ms=1_000)
RECORDING = read_recording(Path(__file__).with_name("kafkas_controller.jsonl.gz"))
BROKERS = sorted({received.broker for received in RECORDING})


class Replayed:
    """One of ours, given what it received. It begins another process, on the same disk, where the requests are for a later
    registration."""

    def __init__(self, broker: int) -> None:
        self.broker, self.now_ms = broker, 0
        self.storage = MemoryStorage()
        self.appended = self.decided = 0
        self._start()

    def _start(self) -> None:
        self.manager = ReplicaManager(self.broker, CONFIG, self.storage, lambda: self.now_ms)
        self.manager.write_isr = lambda effect: None  # in the recording the response of ZooKeeper is in what comes next
        self.view = ClusterView(self.broker, is_alone=False)
        no_driver = cast(ControllerDriver, None)  # only for brokers that shut down
        self.control = ControlRequests(self.manager, self.view, no_driver, lambda: None)
        self.replicas = self.manager.replicas

    def receive(self, request: Any) -> Any:
        if request.broker_epoch != self.replicas.broker_epoch:
            self.manager.checkpoint()
            if self.replicas.broker_epoch is not None:
                self._start()
            self.manager.registered(request.broker_epoch)
        handlers: Mapping[type, Any] = {
            LeaderAndIsrRequest: self.control.leader_and_isr,
            StopReplicaRequest: self.control.stop_replica,
            UpdateMetadataRequest: self.control.update_metadata,
        }
        pending: Pending = handlers[type(request)](request)
        assert pending.response is not None, "nothing is waited for"
        return pending.response

    def leaders(self) -> Iterator[tuple[TopicPartition, Leader]]:
        for partition, replica in self.replicas.partitions.items():
            if isinstance(replica.role, Leader):
                yield partition, replica.role

    def work(self) -> None:
        """A producer with acks=all, and the followers of every partition that is led here, which have all of it a moment
        later."""
        for partition, leader in list(self.leaders()):
            append(self.manager, partition, b"record", self._decided)
            self.appended += 1
            for follower in leader.remotes:
                epoch = leader.state.leader_epoch
                self.manager.fetch(partition, ReplicaFetch(follower, epoch, leader.log.end_offset, 0))
        self.now_ms += 2 * CONFIG.replica_lag_time_max_ms
        self.manager.tick()

    def _decided(self, error: object) -> None:
        assert error is None
        self.decided += 1

    def check(self) -> None:
        """What holds after every request."""
        for partition, leader in self.leaders():
            state, log = leader.state, leader.log
            assert state.leader == self.broker
            assert set(state.isr) <= {*state.replicas}
            assert leader.high_watermark == log.end_offset, f"{partition}: all followers have all"
        for partition, replica in self.replicas.partitions.items():
            assert replica.high_watermark <= replica.log.end_offset
            assert replica.role is None or self.broker in replica.role.state.replicas, f"{partition} was taken away"
        assert self.decided == self.appended


def check_response(one: Replayed, before: Mapping[TopicPartition, int], request: Any, response: Any) -> None:
    """``before``: the leader epochs."""
    assert response.error_code == ErrorCode.NONE
    if isinstance(request, UpdateMetadataRequest):
        for partition, state in encoding.partition_states(request).items():
            if state.leader == LEADER_DURING_DELETE:
                assert partition not in one.view.states
            else:
                assert (one.view.states[partition].leader, one.view.states[partition].isr) == (state.leader, state.isr)
        return
    errors = {(row.topic_name, row.partition_index): row.error_code for row in response.partition_errors}
    if isinstance(request, StopReplicaRequest):
        for partition, stopped in encoding.stopped_replicas(request).items():
            assert errors[partition] == ErrorCode.NONE
            assert partition not in one.replicas.partitions or one.replicas.partitions[partition].role is None
            assert not stopped.delete or partition not in one.storage.logs
        return
    for partition, state in encoding.partition_states(request).items():
        is_newer = state.leader_epoch > before.get(partition, -1)
        assert errors[partition] == (ErrorCode.NONE if is_newer else ErrorCode.STALE_CONTROLLER_EPOCH)
        if is_newer:
            role = one.replicas.partitions[partition].role
            assert isinstance(role, Leader if state.leader == one.broker else Follower)


@pytest.mark.parametrize("broker", BROKERS)
def test_every_request_of_kafkas_controller(broker: int) -> None:
    """No exception, each partition has the role that it was given, and leaders acknowledge what their followers have."""
    one = Replayed(broker)
    for received in RECORDING:
        if received.broker == broker:
            same = received.request.broker_epoch == one.replicas.broker_epoch
            before = {p: replica.leader_epoch for p, replica in one.replicas.partitions.items()} if same else {}
            check_response(one, before, received.request, one.receive(received.request))
            one.work()
            one.check()
    assert one.appended > 20


def _states() -> Iterator[PartitionState]:
    for received in RECORDING:
        if isinstance(received.request, LeaderAndIsrRequest):
            yield from encoding.partition_states(received.request).values()


def test_the_recording_has_what_our_controller_does_not_send() -> None:
    """Else the replay shows nothing."""
    kinds = Counter(type(received.request) for received in RECORDING)
    assert kinds.keys() == {LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest}
    assert any(set(state.isr) - {*state.replicas} for state in _states()), "a removed replica that is still in the ISR"
    assert any(state.adding_replicas for state in _states())
    assert any(state.removing_replicas for state in _states())
    stopped = [encoding.stopped_replicas(r.request) for r in RECORDING if isinstance(r.request, StopReplicaRequest)]
    assert {one.delete for each in stopped for one in each.values()} == {False, True}


def test_a_line_of_a_recording() -> None:
    first = RECORDING[0]
    assert ReceivedRequest.of_json(first.to_json()) == first
