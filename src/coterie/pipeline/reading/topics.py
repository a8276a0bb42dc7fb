"""Topics as the driver sees them: which partitions there are, their offsets, the group's commits. Blocking sockets, no
Spark. Faults that pass (a broker that restarts) are waited out for default.api.timeout.ms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from coterie.client.connection.blocking_socket import BrokerSocket, Sockets
from coterie.client.errors import KafkaError, check, error_about
from coterie.client.offsets.lookup_steps import check_stable, commit_error
from coterie.client.pauses.clock import Waits, now_ms, pause_thread
from coterie.client.pauses.retrying import NO_SUCH_TOPIC, Retrying
from coterie.client.settings.settings import ClientSettings
from coterie.consuming.commits.offset_commit import (
    RETRIED,
    CommitOffsets,
    Verdict,
    commit_request,
    first_error,
    verdict_without_machine,
)
from coterie.consuming.committed_offsets import SendOffsetFetch
from coterie.consuming.fetching.position import VALIDATED_FROM
from coterie.consuming.offset_lookup import SendListOffsets
from coterie.machines.cluster_metadata import GROUP, Address, ClusterMetadata
from coterie.pipeline.offsets import EARLIEST, LATEST, DataLossError, TopicOffsets, TopicPartition, from_json
from coterie.pipeline.options.options import SourceOptions
from coterie.pipeline.options.types import OptionError
from coterie.pipeline.reading.offset_lookups import committed, looked_up
from coterie.pipeline.reading.planning import OffsetRange, divide
from coterie.records.batch import batches
from coterie.wire import topic_names
from coterie.wire.errors import ErrorCode, error_of
from coterie.wire.messages.groups.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.wire.messages.logs.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.logs.list_offsets import ListOffsetsResponse
from coterie.wire.messages.logs.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse

R = TypeVar("R")
SAMPLE_BYTES = 64 * 1024
CLIENT_ID = "coterie-spark"
RESPONSE = "a broker's response"


def retry_until_timeout(
    settings: ClientSettings,
    work: Callable[[], R],
    forget: Callable[[], None],
    *,
    waits: Waits,
    final: frozenset[ErrorCode] = frozenset(),
) -> R:
    """Runs it again after errors that pass, for default.api.timeout.ms; ``forget`` drops the connections before. Raises
    KafkaError."""
    retrying = Retrying(settings, settings.default_api_timeout_ms / 1000)
    while True:
        try:
            result = work()
        except KafkaError as error:
            pause_s = retrying.pause_after_s(error, final=final)
            waits.failed(RESPONSE, error)
        else:
            waits.succeeded(RESPONSE)
            return result
        forget()
        pause_thread(pause_s)


class TopicReader:
    """Connects when it is first used."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._settings = options.settings()
        security = self._settings.security()
        self._sockets = Sockets(lambda at: BrokerSocket(*at, client_id=CLIENT_ID, security=security))
        self._known = ClusterMetadata(self._settings.metadata_max_age_ms)
        self.waits = Waits(
            "a Spark stream" if self.options.group_id is None else f"a Spark stream, group {options.group_id},"
        )

    def lost(self, what: str) -> None:
        """Records cannot be read any more. Raises DataLossError unless failOnDataLoss is false."""
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{what}; set failOnDataLoss=false to go on without the records")

    def check_added(self, beginnings: Mapping[TopicPartition, int]) -> None:
        """Partitions that are new to a query. Raises DataLossError as `lost` for one whose first records are deleted already,
        as Spark's connector (KafkaMicroBatchStream.planInputPartitions)."""
        for (topic, partition), offset in beginnings.items():
            if offset > 0:
                self.lost(f"{topic}-{partition} is new and begins at {offset}: its first records were deleted unread")

    # -- connections ----------------------------------------------------------------------------------------------------

    def _socket(self, address: Address | None = None) -> BrokerSocket:
        if address is not None:
            return self._sockets.at(address)
        return self._sockets.any(self._known.addresses(self._settings.bootstrap()))

    def close(self) -> None:
        """Ends the connections; the next use opens new ones."""
        self._sockets.close()

    def _retry(self, work: Callable[[], R]) -> R:
        return retry_until_timeout(self._settings, work, self._forget, waits=self.waits, final=NO_SUCH_TOPIC)

    def _forget(self) -> None:
        self.close()
        self._known.forget_leaders()

    # -- topics and offsets -----------------------------------------------------------------------------------------------

    def partitions(self, *, missing_allowed: bool = False) -> list[TopicPartition]:
        """The partitions to read now. Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION for a topic that is missing."""
        return self._retry(lambda: self._partitions(missing_allowed))

    def _partitions(self, missing_allowed: bool = False) -> list[TopicPartition]:
        o = self.options
        names = list(o.subscribe) or list(o.assign)
        if not names and not o.pattern:
            return []
        response = self._metadata(None if o.pattern else names)
        partitions: list[TopicPartition] = []
        for topic in response.topics:
            if o.pattern and (topic.is_internal or not re.search(o.pattern, topic.name or "")):
                continue
            if missing_allowed and topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(
                topic.error_code,
                f"topic {topic.name}: {_ADVICE.get(error_of(topic.error_code), 'it cannot be read now')}",
            )
            for p in topic.partitions:
                where = (topic.name or "", p.partition_index)
                if not o.assign or p.partition_index in o.assign[where[0]]:
                    if self._known.leader_address(*where) is None:
                        code = error_of(p.error_code) or ErrorCode.LEADER_NOT_AVAILABLE
                        raise KafkaError(code, f"{where[0]}-{where[1]} has no leader")
                    partitions.append(where)
        return sorted(partitions)

    def topic_ids(self) -> dict[str, bytes]:
        """The id of every topic by its name; none of a broker that reports no ids (before Kafka 2.8). Raises KafkaError."""
        response = self._retry(lambda: self._socket().request(self._known.metadata_request(None)))
        check(response.error_code)
        return {t.name: t.topic_id for t in response.topics if t.name and any(t.topic_id)}

    def look_at(self, topics: Iterable[str]) -> dict[str, bytes | None]:
        """The id of each topic as it is now: None where there is no such topic, empty of a broker that reports no ids (before
        Kafka 2.8). Raises KafkaError."""
        names = sorted(set(topics))
        response = self._retry(lambda: self._metadata(names)) if names else None
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        gone = {t.name for t in response.topics if t.error_code == missing} if response is not None else set()
        return {name: None if name in gone else self.topic_id(name) for name in names}

    def topic_id(self, topic: str) -> bytes:
        """As last seen; empty: unknown."""
        return self._known.topic_ids([topic]).get(topic, b"")

    def _leader(self, where: TopicPartition) -> Address:
        """Looked up where it is not known. Raises KafkaError."""
        if self._known.leader_address(*where) is None:
            self._partitions()
        address = self._known.leader_address(*where)
        if address is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {where[0]}-{where[1]}")
        return address

    def check(self) -> None:
        """Raises KafkaError for a topic that cannot be read, OptionError for options that do not fit it."""
        self.beginning(self.partitions())

    def offsets_of(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Offsets for timestamps; -1 is the end, -2 the start."""
        offsets = looked_up(wanted, self._settings, self._known, self._list_offsets, self._refresh, waits=self.waits)
        return {(topic, partition): offset for (topic, partition), offset in offsets.items()}

    def _list_offsets(self, sent: SendListOffsets) -> ListOffsetsResponse:
        try:
            response: ListOffsetsResponse = self._socket(self._known.address(sent.node_id)).request(sent.request)
        except KafkaError:
            self.close()
            raise
        return response

    def _refresh(self, topics: frozenset[str]) -> None:
        try:
            self._metadata(sorted(topics))
        except KafkaError:
            self.close()
            raise

    def _metadata(self, names: Iterable[str] | None) -> MetadataResponse:
        """Also into what is known. Raises KafkaError."""
        socket = self._socket()
        response: MetadataResponse = socket.request(self._known.metadata_request(names))
        check(response.error_code)
        self._known.metadata_received(response, now_ms(), version=socket.version_of(MetadataRequest))
        return response

    def leader_epoch(self, where: TopicPartition) -> int:
        """That of the partition's leader, as far as it is known; -1: unknown."""
        return self._known.leader_epoch(*where)

    def ends_of_epochs(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset behind the last record of each leader epoch or an earlier one, in the log of today's leader (KIP-320);
        without the partitions whose leader cannot tell. Raises KafkaError."""
        ends = self._retry(lambda: {tp: self._end_of_epoch(tp, epoch) for tp, epoch in epochs.items()})
        return {tp: end for tp, end in ends.items() if end >= 0}

    def _end_of_epoch(self, where: TopicPartition, epoch: int) -> int:
        """-1: unknown."""
        socket = self._socket(self._leader(where))
        if socket.version_of(OffsetForLeaderEpochRequest) < VALIDATED_FROM:
            return -1
        wanted = OffsetForLeaderPartition(where[1], self._known.leader_epoch(*where), epoch)
        response = socket.request(OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(where[0], [wanted])]))
        result = response.topics[0].partitions[0]
        check(result.error_code, f"{where[0]}-{where[1]}")
        return result.end_offset if result.leader_epoch >= 0 else -1

    def ends(self) -> dict[TopicPartition, int]:
        """The end of every partition that there is now."""
        return self.offsets_of(dict.fromkeys(self.partitions(), LATEST))

    def starting(self) -> dict[TopicPartition, int]:
        """The first offsets, by the options: timestamps, the group's commits, or offsets. Raises OptionError, DataLossError."""
        o, partitions = self.options, self.partitions()
        if o.starting_timestamps is None and o.starting == "committed":
            known = {tp: offset for tp, offset in self.committed(partitions).items() if offset >= 0}
            return known | self.offsets_of({tp: EARLIEST for tp in partitions if tp not in known})
        return self.beginning(partitions)

    def beginning(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The same for these partitions, without a request to the group."""
        o = self.options
        if o.starting_timestamps is not None:
            return self._at_times("startingOffsetsByTimestamp", o.starting_timestamps, partitions, o.late_is_an_error)
        return self._resolve("startingOffsets", o.starting, partitions)

    def bounds(self) -> dict[TopicPartition, tuple[int, int]]:
        """The bounds of a batch read: where each partition begins and ends. Raises OptionError, DataLossError."""
        o, start, log_ends = self.options, self.starting(), self.ends()
        partitions = sorted(start)
        if o.ending_timestamps is not None:
            ends = self._at_times("endingOffsetsByTimestamp", o.ending_timestamps, partitions, late_is_an_error=False)
        else:
            ends = log_ends if o.ending == "latest" else self._resolve("endingOffsets", o.ending, partitions)
        for (topic, partition), first in start.items():
            log_end, end = log_ends[topic, partition], ends[topic, partition]
            if first > log_end:
                raise OptionError(f"{topic}-{partition} ends at {log_end}, and startingOffsets begins it at {first}")
            if first > end:
                raise OptionError(f"{topic}-{partition} begins at {first} and ends at {end}: correct the options")
            if end > log_end:
                self.lost(f"{topic}-{partition} ends at {log_end}, before the {end} of endingOffsets")
        return {tp: (start[tp], min(ends[tp], log_ends[tp])) for tp in partitions}

    def _at_times(
        self, name: str, requested: int | TopicOffsets, partitions: list[TopicPartition], late_is_an_error: bool
    ) -> dict[TopicPartition, int]:
        """The first record at or after a time; where there is none, the end, or an error."""
        times = (
            dict.fromkeys(partitions, requested) if isinstance(requested, int) else _each(name, requested, partitions)
        )
        offsets = self.offsets_of(times)
        late = [tp for tp, offset in offsets.items() if offset < 0]
        if late and late_is_an_error:
            topic, partition = late[0]
            text = f"{topic}-{partition} has no record at or after {times[late[0]]} ms"
            raise DataLossError(f"{text}; set startingOffsetsByTimestampStrategy=latest to begin at its end")
        return offsets | self.offsets_of(dict.fromkeys(late, LATEST)) if late else offsets

    def _resolve(
        self, name: str, requested: str | TopicOffsets, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if isinstance(requested, str):
            return self.offsets_of(dict.fromkeys(partitions, LATEST if requested == "latest" else EARLIEST))
        offsets = _each(name, requested, partitions)
        return offsets | self.offsets_of({tp: offset for tp, offset in offsets.items() if offset < 0})

    def record_bytes(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """The mean size of the records there, stored as they are, from the first batches of each partition."""
        return self._retry(lambda: {tp: self._mean_bytes(*tp, offset) for tp, offset in positions.items()})

    def _mean_bytes(self, topic: str, partition: int, offset: int) -> float:
        requested = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=SAMPLE_BYTES)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=SAMPLE_BYTES, topics=[FetchTopic(topic, partitions=[requested])]
        )
        response = self._socket(self._leader((topic, partition))).request(request, highest=topic_names.FETCH)
        check(response.error_code, f"{topic}-{partition} at {offset}")
        partition_data = response.responses[0].partitions[0]
        check(partition_data.error_code, f"{topic}-{partition} at {offset}")
        headers = [h for _, h in batches(partition_data.records or b"")]
        records = sum(h.record_count for h in headers)
        return sum(h.size for h in headers) / records if records else 0.0

    # -- the group ------------------------------------------------------------------------------------------------------

    def _group_socket(self) -> BrokerSocket:
        group_id = self.options.group_id or ""
        if self._known.coordinator(group_id, GROUP) is None:
            self._look_up_coordinator()
        return self._socket(self._known.address(self._known.coordinator(group_id, GROUP)))

    def _look_up_coordinator(self) -> None:
        group_id = self.options.group_id or ""
        try:
            response = self._socket().request(self._known.coordinator_request(group_id, GROUP))
        except KafkaError:
            self.close()
            raise
        lookup = self._known.coordinator_received(group_id, GROUP, response)
        check(lookup.error_code, lookup.error_message)

    def committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The group's committed offsets, -1 where it has none. Raises KafkaError."""
        group_id = self.options.group_id
        if group_id is None:
            return {}
        offsets = committed(
            group_id,
            partitions,
            self._settings,
            self._known,
            self._fetch_offsets,
            self._look_up_coordinator,
            waits=self.waits,
        )
        return {(topic, partition): offset for (topic, partition), offset in offsets.items()}

    def _fetch_offsets(self, sent: SendOffsetFetch) -> OffsetFetchResponse:
        try:
            socket = self._socket(self._known.address(sent.node_id))
            check_stable(sent.request, socket.versions.choose(OffsetFetchRequest))
            response: OffsetFetchResponse = socket.request(sent.request, highest=topic_names.OFFSET_FETCH)
        except KafkaError:
            self.close()
            raise
        return response

    def commit(self, offsets: CommitOffsets, member_id: str = "", generation: int = -1) -> None:
        """For a group without members, or in the name of a member, by `commit_errors`. Raises CommitFailedError or
        RebalanceInProgressError for a member, or another KafkaError."""
        group_id = self.options.group_id or ""
        instance_id = self._settings.group_instance_id if member_id else None
        request = commit_request(group_id, dict(sorted(offsets.items())), generation, member_id, instance_id)

        def attempt() -> tuple[Verdict, ErrorCode, KafkaError | None]:
            """Raises what is repeated."""
            code, partition = first_error(self._group_socket().request(request, highest=topic_names.OFFSET_COMMIT))
            what = verdict_without_machine(code)
            error = error_about(code, f"group {group_id}, {partition}") if code else None
            if error is not None and what in RETRIED:
                raise error
            return what, code, error

        what, code, error = retry_until_timeout(self._settings, attempt, self._forget, waits=self.waits)
        if error is not None:
            raise commit_error(what, code, None) if member_id and what != Verdict.GIVE_UP else error

    # -- planning -------------------------------------------------------------------------------------------------------

    def plan_ranges(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> list[OffsetRange]:
        """The ranges as tasks, each with its partition's leader."""
        leaders = self._retry(lambda: {tp: self._leader(tp) for tp in ranges})
        whole = [OffsetRange(*tp, *r, *leaders[tp]) for tp, r in sorted(ranges.items())]
        return divide(whole, self.options.min_partitions, self.options.max_records_per_partition)


def _each(name: str, requested: TopicOffsets, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Raises OptionError unless the option names each partition that is read, and no other, as the connector has it."""
    given = from_json(requested)
    missing, others = sorted(set(partitions) - given.keys()), sorted(given.keys() - set(partitions))
    if missing or others:
        groups = {"missing": missing, "not read": others}
        lists = [f"{what}: {', '.join(f'{t}-{p}' for t, p in tps)}" for what, tps in groups.items() if tps]
        raise OptionError(f"option {name} must name every partition that is read and no other; {'; '.join(lists)}")
    return given


_ADVICE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist; create it first, or correct the option subscribe",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this client may not read it; give it the right to, or other credentials",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "no topic can have that name; correct the option subscribe",
}
