"""The followers of a broker of the laboratory: their requests to leaders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.laboratory.cluster.process import FOREVER_MS, Answer, Process
from coterie.replication.follower import Follower
from coterie.replication.partition import Replica
from coterie.replication.replicas import Replicas
from coterie.replication.states import EpochLookup, ReplicaError, ReplicaFetch, TopicPartition

FETCHED_EVERY_MS = 150  # a follower at the leader's end; Kafka's waits in the leader


class ReplicatingBroker(Process):
    """A broker, as followers know it."""

    peers: Mapping[int, ReplicatingBroker]

    def answer_follower(self, partition: TopicPartition, request: EpochLookup | ReplicaFetch, answer: Answer) -> None:
        raise NotImplementedError

    def answer_ends(self, partition: TopicPartition, current_leader_epoch: int, answer: Answer) -> None:
        """The offsets where the leader's log begins and ends, or an error."""
        raise NotImplementedError


class ReplicaFetcher:
    """One of a broker's life. A broker acts often, and few of its followers have something to request then: `fetch` looks at
    those alone."""

    def __init__(self, broker: ReplicatingBroker, replicas: Replicas) -> None:
        self.broker, self._replicas = broker, replicas
        self._due_ms = 0  # the first time at which a follower may request something by itself
        self._ended: list[Replica] = []  # their requests, since the last look

    def roles_changed(self) -> None:
        """Any follower may have something to request."""
        self._due_ms = 0

    def fetch(self) -> None:
        """What followers have to request now."""
        now_ms, ended = self.broker.now_ms, self._ended
        is_due = now_ms >= self._due_ms
        if not (is_due or ended):
            return
        self._ended = []
        if is_due or len(ended) > 1:  # all, in their order
            ended, self._due_ms = list(self._replicas.followers()), FOREVER_MS
        for replica in ended:
            due_ms = replica.role.next_deadline_ms() if isinstance(replica.role, Follower) else None
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                self._fetch(replica)
            elif due_ms < self._due_ms:
                self._due_ms = due_ms

    def _fetch(self, replica: Replica) -> None:
        broker, role, now_ms = self.broker, replica.role, self.broker.now_ms
        assert isinstance(role, Follower)
        request = role.next_request(now_ms)
        if request is None:
            return
        target = broker.peers[role.leader]

        def answered(result: Any) -> None:
            try:
                self._fetched(replica, role, request, result)
            except OSError:
                self._disk_refused(role)

        def failed() -> None:
            self._ended.append(replica)
            role.failed(request, self.broker.now_ms)
            self._fetch_later(role)

        broker.call(target, lambda answer: target.answer_follower(replica.partition, request, answer), answered, failed)

    def _fetched(self, replica: Replica, role: Follower, request: EpochLookup | ReplicaFetch, result: Any) -> None:
        if replica.role is not role:
            return
        self._ended.append(replica)
        if isinstance(result, ReplicaError):
            is_out_of_range = result is ReplicaError.OFFSET_OUT_OF_RANGE and role.leader in self.broker.peers
            if is_out_of_range and isinstance(request, ReplicaFetch):
                self._find_ends(replica, role, request)
                return
            role.refused(request, result, self.broker.now_ms)
            self._fetch_later(role)
        elif isinstance(request, EpochLookup):
            role.epoch_ended(request, result)
        else:
            role.fetched(request, result)
            if not result.batches:
                role.rest_until(self.broker.now_ms + FETCHED_EVERY_MS)
                self._fetch_later(role)

    def _find_ends(self, replica: Replica, role: Follower, request: ReplicaFetch) -> None:
        """ListOffsets: where the leader's log begins and ends."""
        broker, target = self.broker, self.broker.peers[role.leader]

        def answered(ends: Any) -> None:
            if replica.role is not role:
                return
            self._ended.append(replica)
            if isinstance(ends, ReplicaError):
                role.refused(request, ends, self.broker.now_ms)
                self._fetch_later(role)
            else:
                try:
                    role.out_of_range(request, *ends)
                except OSError:
                    self._disk_refused(role)

        def failed() -> None:
            self._ended.append(replica)
            role.failed(request, self.broker.now_ms)
            self._fetch_later(role)

        epoch = request.current_leader_epoch
        broker.call(target, lambda answer: target.answer_ends(replica.partition, epoch, answer), answered, failed)

    def _disk_refused(self, role: Follower) -> None:
        """What a full disk refuses is tried again after the back-off."""
        role.rest_until(self.broker.now_ms + role.config.replica_fetch_backoff_ms)
        self._fetch_later(role)

    def _fetch_later(self, role: Follower) -> None:
        due_ms = role.next_deadline_ms()
        if due_ms is not None:
            self.broker.later(max(due_ms - self.broker.now_ms, 1), lambda: None)
