"""Fetch sessions: which requests belong to one, whom a full cache evicts, and that the sum of incremental answers is
what full fetches say."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.requests.fetch_sessions import FetchSessions, next_epoch
from coterie.wire.errors import ErrorCode, Refusal, error_of
from coterie.wire.messages.logs.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from coterie.wire.messages.logs.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from coterie.wire.messages.logs.produce import ProduceResponse
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from coterie.wire.messages.topics.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from coterie.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.broker.connections.test_server import Client, broker, make_topic, produce, run

HALF_A_MINUTE_MS, TWO_MINUTES_MS = 30_000, 120_000


def of(
    wanted: dict[str, int],
    session_id: int = 0,
    epoch: int = 0,
    *,
    forgotten: tuple[str, ...] = (),
    replica_id: int = -1,
    ids: dict[str, bytes] | None = None,
) -> FetchRequest:
    """A fetch of partition 0 of each topic, from an offset."""
    ids = ids or {}
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(name, ids.get(name, bytes(16)), [FetchPartition(0, fetch_offset=o, partition_max_bytes=10**6)])
            for name, o in wanted.items()
        ],
        forgotten_topics_data=[ForgottenTopic(name, ids.get(name, bytes(16)), [0]) for name in forgotten],
    )


def cache(slots: int = 2) -> FetchSessions:
    return FetchSessions(slots, itertools.count(1).__next__)


def open_session(sessions: FetchSessions, now_ms: int, size: int = 1, *, replica_id: int = -1) -> int:
    """The new session's id; 0 where there is no room."""
    request = of({f"t{n}": 0 for n in range(size)}, replica_id=replica_id)
    fetch = sessions.begin(request, False, now_ms)
    read = [(key, p, PartitionData(0, 0, 0, 0, 0)) for key, p in fetch.partitions.items()]
    return sessions.respond(fetch, read, now_ms).session_id


def use(sessions: FetchSessions, session_id: int, epoch: int, now_ms: int) -> None:
    sessions.begin(of({}, session_id, epoch), False, now_ms)


def test_epochs_wrap_to_1() -> None:
    assert (next_epoch(0), next_epoch(7), next_epoch(2**31 - 1)) == (1, 8, 1)


def test_a_session_that_is_used_is_not_evicted_for_one_of_its_size() -> None:
    sessions = cache(slots=1)
    first = open_session(sessions, 0)
    use(sessions, first, 1, TWO_MINUTES_MS + 1)
    assert open_session(sessions, TWO_MINUTES_MS + 2) == 0
    assert (len(sessions), sessions.evictions) == (1, 0)


def test_a_session_unused_for_two_minutes_is_evicted() -> None:
    sessions = cache(slots=1)
    open_session(sessions, 0, size=5)
    assert open_session(sessions, TWO_MINUTES_MS) == 0
    assert open_session(sessions, TWO_MINUTES_MS + 1) != 0
    assert (len(sessions), sessions.partitions, sessions.evictions) == (1, 1, 1)


def test_a_larger_session_evicts_the_smallest_that_has_lasted() -> None:
    sessions = cache(slots=2)
    small, large = open_session(sessions, 0, size=2), open_session(sessions, 0, size=4)
    assert open_session(sessions, HALF_A_MINUTE_MS, size=9) == 0, "neither has lasted two minutes"
    for session in (small, large):
        use(sessions, session, 1, TWO_MINUTES_MS + 1)
    assert open_session(sessions, TWO_MINUTES_MS + 2, size=2) == 0, "not larger than the smallest"
    assert open_session(sessions, TWO_MINUTES_MS + 2, size=3) != 0
    with pytest.raises(Refusal) as refused:
        use(sessions, small, 2, TWO_MINUTES_MS + 3)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    use(sessions, large, 2, TWO_MINUTES_MS + 3)


def test_a_replica_evicts_a_consumer_and_not_the_reverse() -> None:
    sessions = cache(slots=1)
    open_session(sessions, 0, size=9)
    replica = open_session(sessions, 1, size=1, replica_id=2)
    assert replica != 0
    use(sessions, replica, 1, TWO_MINUTES_MS + 2)
    assert open_session(sessions, TWO_MINUTES_MS + 3, size=9) == 0


def test_without_slots_every_fetch_is_answered_in_full() -> None:
    sessions = cache(slots=0)
    assert (open_session(sessions, 0), len(sessions)) == (0, 0)


ROWS = [
    # (epoch, session exists) -> error; a session after it
    (0, True, ErrorCode.NONE, True),
    (-1, True, ErrorCode.NONE, False),
    (0, False, ErrorCode.NONE, True),
    (-1, False, ErrorCode.NONE, False),
    (1, True, ErrorCode.NONE, True),
    (2, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH, False),
    (-2, True, ErrorCode.INVALID_FETCH_SESSION_EPOCH, False),
    (1, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, False),
    (-2, False, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, False),
]


@pytest.mark.parametrize(("epoch", "exists", "code", "in_session"), ROWS)
async def test_the_epoch_decides_what_a_request_is(epoch: int, exists: bool, code: ErrorCode, in_session: bool) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        await client.ask(produce(), ProduceResponse, 9)
        opened = await client.ask(of({"t": 0}), FetchResponse, 12)
        session = opened.session_id if exists else opened.session_id % 1000 + 1
        assert opened.session_id > 0
        response = await client.ask(of({"t": 0}, session, epoch), FetchResponse, 12)
        assert (error_of(response.error_code), bool(response.session_id)) == (code, in_session)
        has_records = [bool(p.records) for topic in response.responses for p in topic.partitions]
        assert has_records == ([] if code else [True])


async def test_a_full_fetch_ends_the_session_that_it_names() -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        opened = await client.ask(of({"t": 0}), FetchResponse, 12)
        await client.ask(of({"t": 0}, opened.session_id, -1), FetchResponse, 12)
        response = await client.ask(of({}, opened.session_id, 1), FetchResponse, 12)
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_outlives_its_connection_and_ends_when_all_is_forgotten() -> None:
    async with broker() as connect:
        client, other = await connect(), await connect()
        await make_topic(client)
        opened = await client.ask(of({"t": 0}), FetchResponse, 12)
        client.writer.close()
        response = await other.ask(of({}, opened.session_id, 1), FetchResponse, 12)
        assert (response.error_code, response.session_id) == (ErrorCode.NONE, opened.session_id)
        response = await other.ask(of({}, opened.session_id, 2, forgotten=("t",)), FetchResponse, 12)
        assert (response.error_code, response.session_id) == (ErrorCode.NONE, 0)
        response = await other.ask(of({}, opened.session_id, 3), FetchResponse, 12)
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_what_had_records_is_read_last_the_next_time() -> None:
    async with broker() as connect:
        client = await connect()
        for name in ("a", "b", "c"):
            await make_topic(client, name)
        opened = await client.ask(of({"a": 0, "b": 0, "c": 0}), FetchResponse, 12)
        assert [t.topic for t in opened.responses] == ["a", "b", "c"]
        orders = []
        for epoch, written in enumerate((("a",), ("a", "b"), ("c", "a")), 1):
            for name in written:
                await client.ask(produce(topic=name), ProduceResponse, 9)
            response = await client.ask(of({}, opened.session_id, epoch), FetchResponse, 12)
            orders.append([t.topic for t in response.responses])
        # Nobody moved on, so each response repeats what the one before held.
        assert orders == [["a"], ["b", "a"], ["c", "b", "a"]]


async def test_a_session_keeps_to_names_or_to_ids() -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        ids = await topic_ids(client)
        opened = await client.ask(of({"t": 0}, ids=ids), FetchResponse, 13)
        response = await client.ask(of({"t": 0}, opened.session_id, 1), FetchResponse, 12)
        assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        response = await client.ask(of({}, opened.session_id, 1), FetchResponse, 13)
        assert (response.error_code, response.responses) == (ErrorCode.NONE, [])


@pytest.mark.parametrize(
    ("version", "deleted", "made_anew"),
    [
        (12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE),
        (13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID),
    ],
)
async def test_a_topic_deleted_during_a_session(version: int, deleted: ErrorCode, made_anew: ErrorCode) -> None:
    async with broker() as connect:
        client = await connect()
        for name in ("t", "u"):
            await make_topic(client, name)
        ids = await topic_ids(client) if version >= 13 else None
        opened = await client.ask(of({"t": 0, "u": 0}, ids=ids), FetchResponse, version)
        for epoch, code in ((1, deleted), (2, deleted), (3, made_anew)):
            if epoch == 1:
                await client.ask(DeleteTopicsRequest(topic_names=["t"]), DeleteTopicsResponse, 5)
            if epoch == 3:
                await make_topic(client, "t")
            response = await client.ask(of({}, opened.session_id, epoch), FetchResponse, version)
            assert [p.error_code for t in response.responses for p in t.partitions] == [code]


@pytest.mark.parametrize(("replica_id", "aborted"), [(-1, []), (-3, None)])
@pytest.mark.parametrize("version", [12, 15])
async def test_only_consumers_read_what_is_committed(version: int, replica_id: int, aborted: list[Any] | None) -> None:
    async with broker() as connect:
        client = await connect()
        await make_topic(client)
        request = of({"t": 0}, epoch=-1, ids=await topic_ids(client))
        request.isolation_level = 1
        request.replica_id, request.replica_state = replica_id, ReplicaState(replica_id)
        response = await client.ask(request, FetchResponse, version)
        assert response.responses[0].partitions[0].aborted_transactions == aborted


async def test_a_request_that_is_overtaken_by_the_next_is_refused() -> None:
    async with broker() as connect:
        client, other = await connect(), await connect()
        await make_topic(client)
        opened = await client.ask(of({"t": 0}), FetchResponse, 12)
        waiting = of({}, opened.session_id, 1)
        waiting.max_wait_ms = 20_000
        client.send(waiting, 12)
        while True:  # until the broker has taken the waiting one up
            response = await other.ask(of({}, opened.session_id, 2), FetchResponse, 12)
            if not response.error_code:
                break
        await other.ask(produce(), ProduceResponse, 9)
        frame = await client.frame()
        assert struct.unpack_from(">hi", frame, 9) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, opened.session_id)


async def topic_ids(client: Client) -> dict[str, bytes]:
    response = await client.ask(MetadataRequest(None), MetadataResponse, 12)
    return {topic.name or "": topic.topic_id for topic in response.topics}


# -- the property ------------------------------------------------------------------------------------------------------

TOPICS = ("a", "b", "c")
NOBODY = "nobody-made-this"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["produce", "delete_records", "delete", "create", "add", "forget", "seek", "fetch"]),
        st.sampled_from((*TOPICS, NOBODY)),
    ),
    max_size=30,
)


class Merged:
    """A consumer that knows each partition only by the responses of its session."""

    def __init__(self, client: Client, version: int) -> None:
        self.client, self.version = client, version
        self.wanted: dict[str, int] = {"a": 0}
        self.sent: dict[str, int] = {}
        self.view: dict[str, Any] = {}
        self.session = self.epoch = 0

    async def fetch(self, ids: dict[str, bytes]) -> None:
        changed = {name: offset for name, offset in self.wanted.items() if self.sent.get(name) != offset}
        forgotten = tuple(self.sent.keys() - self.wanted.keys())
        request = of(changed, self.session, self.epoch, forgotten=forgotten, ids=ids)
        response = await self.client.ask(request, FetchResponse, self.version)
        assert response.error_code == ErrorCode.NONE
        for name in forgotten:
            self.view.pop(name, None)
        self.sent = dict(self.wanted)
        names = {topic_id: name for name, topic_id in ids.items()}
        for topic in response.responses:
            for data in topic.partitions:
                self.view[topic.topic or names[topic.topic_id]] = plain(data)
        # What a response leaves out has what it had, without records and without an error.
        responded = {topic.topic or names[topic.topic_id] for topic in response.responses}
        for name in self.view.keys() - responded:
            self.view[name]["records"] = b""
            assert not self.view[name]["error_code"]
        self.session = response.session_id
        self.epoch = next_epoch(self.epoch) if self.session else 0
        if not self.session:
            self.sent = {}


def plain(data: PartitionData) -> dict[str, Any]:
    names = ("error_code", "high_watermark", "log_start_offset", "records")
    return {name: getattr(data, name) for name in names}


async def play(client: Client, version: int, steps: list[tuple[str, str]]) -> None:
    ids: dict[str, bytes] = {name: name.encode().ljust(16) for name in (*TOPICS, NOBODY)}
    merged = Merged(client, version)

    async def create(name: str) -> None:
        created = await client.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)]), CreateTopicsResponse, 7)
        if not created.topics[0].error_code:
            ids[name] = created.topics[0].topic_id

    await create("a")
    await create("b")
    for action, name in [*steps, ("fetch", "a")]:
        if action == "produce":
            await client.ask(produce(topic=name), ProduceResponse, 9)
        elif action == "delete_records":
            below = DeleteRecordsTopic(name, [DeleteRecordsPartition(0, -1)])
            await client.ask(DeleteRecordsRequest([below], 1000), DeleteRecordsResponse, 2)
        # A client forgets a partition by the topic id that it knew; here ``ids`` has the newest alone.
        elif action in ("delete", "create") and name in merged.sent:
            continue
        elif action == "delete" and name not in merged.wanted:
            gone = DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=1000)
            await client.ask(gone, DeleteTopicsResponse, 6)
        elif action == "create" and name in TOPICS and name not in merged.wanted:
            await create(name)
        elif action == "add":
            merged.wanted.setdefault(name, 0)
        elif action == "forget":
            merged.wanted.pop(name, None)
        elif action == "seek" and name in merged.wanted and not merged.view.get(name, {"error_code": 1})["error_code"]:
            merged.wanted[name] = merged.view[name]["high_watermark"]
        elif action == "fetch":
            await merged.fetch(ids)
            full = await client.ask(of(merged.wanted, epoch=-1, ids=ids), FetchResponse, version)
            names = {topic_id: known for known, topic_id in ids.items()}
            expected = {t.topic or names[t.topic_id]: plain(p) for t in full.responses for p in t.partitions}
            assert merged.view == expected


@pytest.mark.parametrize("version", [7, 12, 13, 18])
@given(STEPS)
@settings(max_examples=40)
def test_incremental_answers_add_up_to_what_full_fetches_say(version: int, steps: list[tuple[str, str]]) -> None:
    async def story() -> None:
        async with broker(auto_create_topics_enable="false") as connect:
            await play(await connect(), version, steps)

    run(story)
