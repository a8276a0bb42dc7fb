"""Stories of the fetching machine beside simulated brokers: leaders move, requests and responses are lost, sessions evicted,
replicas named to read from, logs are cut at the front, partitions are sought, paused and given up; a new leader may lack what
its log ended with. What must hold is asked at every step, and at the end, once nothing fails any more, everything is read: each
record of the final log that comes after the last seek was handed out with the value that it has there."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coterie.consuming.effects import LogTruncated, PartitionFailed, RefreshMetadata, SendFetch, SendValidation
from coterie.consuming.fetching.fetching import Fetching
from coterie.consuming.fetching.outcomes import REMEDIES, FetchRemedy
from coterie.consuming.fetching.position import FetchState, is_to_validate
from coterie.consuming.fetching.requests import FetchConfig
from coterie.consuming.record import TopicPartition
from coterie.machines.backoff import Backoff
from coterie.machines.cluster_metadata import ClusterMetadata
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.logs.fetch import FetchResponse
from tests.consuming.cluster import NO_LEADER, NODES, PARTITIONS, SimulatedCluster

BACKOFF = Backoff(100, 1_000)
partitions = st.sampled_from(PARTITIONS)


class FetchingStories(RuleBasedStateMachine):
    """``expected``: the next offset of each partition, as the story has it; ``begun`` where it was sought last; ``read`` the
    value that was handed out last of each offset; ``cut`` the partitions of which a log was cut."""

    @initialize(
        committed_only=st.booleans(), incremental=st.booleans(), slots=st.sampled_from([0, 10]), newer=st.booleans()
    )
    def begin(self, committed_only: bool, incremental: bool, slots: int, newer: bool) -> None:
        """``newer``: brokers that know topics by id, and name leaders."""
        self.config = FetchConfig(
            max_partition_bytes=200,
            buffer_bytes=300,
            committed_only=committed_only,
            incremental=incremental,
            backoff=BACKOFF,
            validates=True,
        )
        self.cluster = SimulatedCluster(slots=slots)
        if newer:
            self.cluster.topic_ids, self.cluster.names_leaders = {"t": b"t" * 16, "u": b"u" * 16}, True
        self.known = ClusterMetadata(metadata_max_age_ms=0)
        self.machine = Fetching(self.config, self.known)
        self.now_ms = 0.0
        self.out: dict[int, SendFetch] = {}
        self.validating: dict[int, SendValidation] = {}
        self.refreshing: RefreshMetadata | None = None
        self.expected: dict[TopicPartition, int] = {}
        self.begun: dict[TopicPartition, int] = {}
        self.read: dict[TopicPartition, dict[int, bytes]] = {tp: {} for tp in PARTITIONS}
        self.cut: set[TopicPartition] = set()
        self.reported: list[PartitionFailed] = []
        self.failures: dict[TopicPartition, int] = {}
        self.not_before_ms: dict[TopicPartition, float] = {}
        self.cluster.metadata(self.known)
        self.machine.assign(PARTITIONS)
        for tp in PARTITIONS:
            self._seek(tp, 0)
        self._next()

    # -- the driver -----------------------------------------------------------------------------------------------------

    def _next(self) -> None:
        while effects := self.machine.next(self.now_ms):
            for effect in effects:
                match effect:
                    case SendFetch():
                        assert effect.node_id not in self.out, "one request at a time to a broker"
                        self.out[effect.node_id] = effect
                        self._check(effect)
                    case RefreshMetadata():
                        assert self.refreshing is None
                        self.refreshing = effect
                    case SendValidation():
                        assert effect.node_id not in self.validating
                        self.validating[effect.node_id] = effect
                    case PartitionFailed():
                        self.reported.append(effect)
                    case LogTruncated(tp, offset, divergent):
                        assert tp in self.cut, "no log was cut"
                        assert divergent < offset
        deadline_ms = self.machine.next_deadline_ms()
        assert deadline_ms is None or deadline_ms > self.now_ms, "a deadline that is over has been dealt with"

    def _check(self, sent: SendFetch) -> None:
        for tp, position in sent.positions.items():
            assert self.machine.positions[tp] is position
            assert not position.paused
            assert position.buffered_bytes <= self.config.buffer_bytes
            assert self.now_ms >= self.not_before_ms.get(tp, 0), "a failed partition pauses (KIP-580)"
            assert sent.node_id in (self.known.leader(*tp), position.read_replica)
            assert not is_to_validate(position, self.known.leader_epoch(*tp)), "validated before it is fetched"

    def _failed(self, tp: TopicPartition) -> None:
        failures = self.failures.get(tp, 0)
        self.not_before_ms[tp] = self.now_ms + BACKOFF.pause_ms(failures)
        self.failures[tp] = failures + 1

    def _succeeded(self, tp: TopicPartition) -> None:
        self.failures.pop(tp, None)
        self.not_before_ms.pop(tp, None)

    def _seek(self, tp: TopicPartition, offset: int) -> None:
        self.machine.seek(tp, offset)
        self.expected[tp] = self.begun[tp] = offset

    def _readable(self, tp: TopicPartition) -> list[int]:
        log = self.cluster.logs[tp]
        return log.visible if self.config.committed_only else log.records

    # -- brokers --------------------------------------------------------------------------------------------------------

    @rule(tp=partitions, count=st.integers(1, 8))
    def append(self, tp: TopicPartition, count: int) -> None:
        self.cluster.logs[tp].plain(count)

    @rule(tp=partitions, producer_id=st.integers(1, 2), count=st.integers(1, 4), committed=st.booleans())
    def transaction(self, tp: TopicPartition, producer_id: int, count: int, committed: bool) -> None:
        self.cluster.logs[tp].transaction(producer_id, count, committed=committed)

    @rule(tp=partitions, node=st.sampled_from([*NODES, NO_LEADER]))
    def move(self, tp: TopicPartition, node: int) -> None:
        self.cluster.move(tp, node)

    @rule(tp=partitions, node=st.sampled_from(NODES), lost=st.integers(1, 5), count=st.integers(0, 10))
    def unclean_election(self, tp: TopicPartition, node: int, lost: int, count: int) -> None:
        """After what is under way was read. Its log is often as long as the former one's by the time that somebody looks."""
        for responding in list(self.out):
            self._respond(responding)
        self._poll(100)
        log = self.cluster.logs[tp]
        self.cluster.unclean_election(tp, node, max(log.end - lost, log.start))
        log.start = min(log.start, log.end)
        if count:
            log.plain(count)
        self.cut.add(tp)

    @rule(tp=partitions, code=st.sampled_from(sorted(REMEDIES)))
    def break_one(self, tp: TopicPartition, code: ErrorCode) -> None:
        self.cluster.errors[tp].append(code)

    @rule(tp=partitions, data=st.data())
    def delete_records(self, tp: TopicPartition, data: st.DataObject) -> None:
        log = self.cluster.logs[tp]
        log.start = data.draw(st.integers(log.start, log.end))

    @rule(tp=partitions, node=st.sampled_from(NODES))
    def name_replica(self, tp: TopicPartition, node: int) -> None:
        """The leader itself where it is the one."""
        self.cluster.replicas[tp] = node

    @rule(node=st.sampled_from(NODES))
    def evict_sessions(self, node: int) -> None:
        sessions = self.cluster.sessions[node]
        sessions._sessions.clear()

    # -- the network ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def respond(self, data: st.DataObject) -> None:
        self._respond(data.draw(st.sampled_from(sorted(self.out))))

    def _respond(self, node: int) -> None:
        sent = self.out.pop(node)
        response, read = self.cluster.fetch(node, sent.request)
        if not response.error_code:
            assert read == {tp: wanted[0] for tp, wanted in sent.wanted.items()}, "the session is what is wanted"
        current = {tp for tp, position in sent.positions.items() if self.machine.positions.get(tp) is position}
        before = {tp: self.machine.positions[tp].fetch_offset for tp in current}
        leaders = {tp: self.known.leader_epoch(*tp) for tp in current}
        self.machine.responded(sent, response, self.now_ms, 0.0)
        moved = {tp for tp, epoch in leaders.items() if self.known.leader_epoch(*tp) > epoch}
        if not response.error_code:
            current -= moved  # fetched from the leader that the response names, without a pause
            self._outcomes(response, current, before, {tp: epoch for tp, (_, epoch) in sent.wanted.items()})
        self._next()

    def _outcomes(
        self,
        response: FetchResponse,
        current: set[TopicPartition],
        before: dict[TopicPartition, int],
        epochs: dict[TopicPartition, int],
    ) -> None:
        codes = {TopicPartition(t.topic, p.partition_index): p for t in response.responses for p in t.partitions}
        for tp in current:
            code = error_of(codes[tp].error_code) if tp in codes else ErrorCode.NONE
            position = self.machine.positions[tp]
            if not code:
                self._succeeded(tp)
                if tp in codes and codes[tp].records and epochs[tp] == self.known.leader_epoch(*tp):
                    assert position.fetch_offset > before[tp]
            elif REMEDIES[code] in (FetchRemedy.FIND_LEADER, FetchRemedy.RETRY):
                self._failed(tp)
            elif REMEDIES[code] is FetchRemedy.RESET and position.state is FetchState.AWAIT_RESET:
                self._succeeded(tp)
            elif REMEDIES[code] is FetchRemedy.REPORT:
                assert position.refused

    @precondition(lambda self: self.out)
    @rule(data=st.data(), arrives=st.booleans())
    def lose(self, data: st.DataObject, arrives: bool) -> None:
        """The connection breaks, before or after the request arrived."""
        node = data.draw(st.sampled_from(sorted(self.out)))
        sent = self.out.pop(node)
        if arrives:
            self.cluster.fetch(node, sent.request)
        self.machine.failed(sent, ErrorCode.NETWORK_EXCEPTION, self.now_ms, 0.0)
        for tp, position in sent.positions.items():
            if self.machine.positions.get(tp) is position:
                self._failed(tp)
        self._next()

    @precondition(lambda self: self.validating)
    @rule(data=st.data(), outcome=st.sampled_from(["answered", "answered", "lost", "unserved"]))
    def validate(self, data: st.DataObject, outcome: str) -> None:
        node = data.draw(st.sampled_from(sorted(self.validating)))
        if outcome == "answered":
            self._validated(node)
            return
        sent = self.validating.pop(node)
        for tp, position in sent.positions.items():
            if self.machine.positions.get(tp) is position:
                if outcome == "lost":
                    self._failed(tp)
                else:
                    self.begun[tp] = position.offset  # what came before may have been cut off
        if outcome == "lost":
            self.machine.validation_failed(sent, ErrorCode.NETWORK_EXCEPTION, self.now_ms, 0.0)
        else:
            self.machine.validation_unserved(sent)
        self._next()

    def _validated(self, node: int) -> None:
        sent = self.validating.pop(node)
        response = self.cluster.epoch_ends(node, sent.request)
        failures = {tp: p.retries and p.retries.failures for tp, p in sent.positions.items()}
        self.machine.validated(sent, response, self.now_ms, 0.0)
        for tp, position in sent.positions.items():
            if self.machine.positions.get(tp) is not position:
                continue
            if position.retries is not None and position.retries.failures != failures[tp]:
                self._failed(tp)
            elif position.retries is None:
                self._succeeded(tp)
            if position.state is not FetchState.AWAIT_VALIDATION:
                self.expected[tp] = position.offset
        self._next()

    @precondition(lambda self: self.refreshing is not None)
    @rule(responded=st.booleans(), known=st.booleans())
    def refresh(self, responded: bool, known: bool) -> None:
        """The response to a metadata request: none, one that has the topics, or one where they have an error."""
        assert self.refreshing is not None
        refresh, self.refreshing = self.refreshing, None
        if responded and known:
            self.cluster.metadata(self.known, refresh.topics)
        elif responded:
            for topic in refresh.topics:
                self.known.forget_topic(topic)
        self._refreshed(refresh)

    def _refreshed(self, refresh: RefreshMetadata) -> None:
        before = {tp: p.retry_at_ms for tp, p in self.machine.positions.items()}
        self.machine.metadata_refreshed(refresh, self.now_ms, 0.0)
        for tp, position in self.machine.positions.items():
            if position.retry_at_ms != before[tp]:
                assert (self.known.leader(*tp) or NO_LEADER) < 0
                self._failed(tp)
                assert position.retry_at_ms == self.not_before_ms[tp]
        self._next()

    @rule(ms=st.sampled_from([1, 99, 100, 1_000]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self._next()

    # -- the caller -----------------------------------------------------------------------------------------------------

    @rule(limit=st.integers(1, 10))
    def poll(self, limit: int) -> None:
        self._poll(limit)

    def _poll(self, limit: int) -> int:
        polled = self.machine.take(limit)
        assert sum(map(len, polled.values())) <= limit
        for tp, records in polled.items():
            readable = self._readable(tp)
            at = bisect_left(readable, self.expected[tp])
            offsets = [r.offset for r in records]
            assert offsets == sorted(set(offsets))
            if tp not in self.cut:
                assert offsets == readable[at : at + len(offsets)], "each record once, in order, none left out"
                assert [r.value for r in records] == [self.cluster.logs[tp].values[offset] for offset in offsets]
            self.read[tp] |= {r.offset: r.value for r in records}
            self.expected[tp] = offsets[-1] + 1
        self._next()
        return sum(map(len, polled.values()))

    @rule(tp=partitions, data=st.data())
    def seek(self, tp: TopicPartition, data: st.DataObject) -> None:
        if tp in self.machine.positions:
            self._seek(tp, data.draw(st.integers(0, self.cluster.logs[tp].end + 2)))
            self._next()

    @rule(tp=partitions)
    def pause_or_resume(self, tp: TopicPartition) -> None:
        if tp in self.machine.positions:
            self.machine.positions[tp].paused ^= True
            self._next()

    @rule()
    def reset(self) -> None:
        self._reset()
        self._next()

    def _reset(self) -> None:
        for tp in self.machine.resets_due():
            log = self.cluster.logs[tp]
            self._seek(tp, log.start)

    @rule(assigned=st.sets(partitions))
    def assign(self, assigned: set[TopicPartition]) -> None:
        self.machine.assign(sorted(assigned))
        for tp in PARTITIONS:
            if tp not in assigned:
                self._succeeded(tp)
        for tp in self.machine.initializing():
            self._seek(tp, self.cluster.logs[tp].start)
        self._next()

    # -- what holds ------------------------------------------------------------------------------------------------------

    @invariant()
    def positions_are_in_order(self) -> None:
        for position in self.machine.positions.values():
            assert position.offset <= position.fetch_offset
            assert position.buffered_bytes == sum(batch.header.size for batch in position.stored)
            assert position.state in (FetchState.FETCHING, FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION)

    def teardown(self) -> None:
        """Nothing fails any more: within bounds, everything that is assigned is read to its end."""
        if not hasattr(self, "machine"):
            return
        self.cluster.errors.clear()
        self.cluster.replicas.clear()
        for tp, leader in self.cluster.leaders.items():
            if leader == NO_LEADER:
                self.cluster.move(tp, NODES[0])
        for position in self.machine.positions.values():
            position.paused = False
        for _ in range(300):
            self._reset()
            self._next()
            if self.refreshing is not None:
                refresh, self.refreshing = self.refreshing, None
                self.cluster.metadata(self.known, refresh.topics)
                self._refreshed(refresh)
            for node in list(self.out):
                self._respond(node)
            for node in list(self.validating):
                self._validated(node)
            if not self._poll(100) and self._is_read():
                self._check_values()
                return
            self.now_ms += 100
        unread = {tp: p for tp, p in self.machine.positions.items() if p.offset < self.cluster.logs[tp].end}
        raise AssertionError(f"never read to the end: {unread}")

    def _is_read(self) -> bool:
        positions, logs = self.machine.positions, self.cluster.logs
        is_known = all(self.known.leader_epoch(*tp) == logs[tp].epoch for tp in positions)
        return is_known and all(p.offset == logs[tp].end for tp, p in positions.items())

    def _check_values(self) -> None:
        for tp in self.machine.positions:
            offsets = [offset for offset in self._readable(tp) if offset >= self.begun[tp]]
            values = self.cluster.logs[tp].values
            read = self.read[tp]
            assert [(o, read.get(o)) for o in offsets] == [(o, values[o]) for o in offsets], "the log as it is now"


FetchingStories.TestCase.settings = settings(
    max_examples=100, stateful_step_count=50, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
TestFetchingStories = FetchingStories.TestCase
