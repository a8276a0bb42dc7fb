"""Frames and responses of the remoting protocol: what is written is read, and of hostile ones comes FrameError alone."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Collection
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conformance.tests.rocketmq.server import stored
from coterie.rocketmq import requests as r
from coterie.rocketmq.allocation import MessageQueue
from coterie.rocketmq.requests import ONEWAY_FLAG, RemotingCommand, encode
from coterie_conformance.rocketmq import frames, message_requests
from coterie_conformance.rocketmq.frames import FrameError, StoredMessage, decode, read_messages
from tests.text.hostile_json import DEEP, documents

NUMBERS = st.integers(-(2**31), 2**31 - 1)
commands = st.builds(
    RemotingCommand,
    NUMBERS,
    st.dictionaries(st.text(), st.text(), max_size=4),
    st.binary(max_size=40),
    NUMBERS,
    NUMBERS,
    st.none() | st.text(max_size=20),
)


@given(commands)
def test_a_command_is_read_as_it_was_written(command: RemotingCommand) -> None:
    frame = encode(command)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode(frame[4:]) == command


@given(commands, st.data())
def test_a_frame_that_is_cut_or_changed_is_another_frame_or_refused(
    command: RemotingCommand, data: st.DataObject
) -> None:
    frame = bytearray(encode(command)[4:])
    at = data.draw(st.integers(0, len(frame) - 1))
    frame[at] = data.draw(st.integers(0, 255))
    for hostile in (bytes(frame), encode(command)[4 : 4 + at]):
        try:
            _check_command(decode(hostile))
        except FrameError:
            continue


HEADER = {"code": 0, "opaque": 1, "flag": 1, "remark": "no", "extFields": {"topic": "t"}}


@given(documents(HEADER))
def test_a_header_of_any_shape_is_read_or_refused(text: str) -> None:
    header = text.encode()
    try:
        _check_command(decode(struct.pack(">i", len(header)) + header))
    except FrameError:
        return


def _check_command(command: RemotingCommand) -> None:
    assert {type(n) for n in (command.code, command.opaque, command.flag)} == {int}
    assert all(isinstance(text, str) for pair in command.fields.items() for text in pair)
    assert command.remark is None or isinstance(command.remark, str)


ROUTE = {
    "brokerDatas": [{"brokerName": "b", "brokerAddrs": {"0": "h:1", "1": "h:2"}}],
    "queueDatas": [{"brokerName": "b", "perm": 6, "readQueueNums": 2}],
}
LOCKED = {"lockOKMQSet": [{"topic": "t", "brokerName": "b", "queueId": 0}]}
READERS: list[tuple[Callable[[RemotingCommand], Any], Any]] = [
    (lambda response: message_requests.route_of("t", response), ROUTE),
    (message_requests.consumers_of, {"consumerIdList": ["c1", "c2"]}),
    (message_requests.locked_of, LOCKED),
]


@pytest.mark.parametrize(("read", "valid"), READERS, ids=["route", "consumers", "locked"])
def test_a_response_of_any_shape_is_read_or_refused(read: Callable[[RemotingCommand], Any], valid: Any) -> None:
    assert read(RemotingCommand(0, body=json.dumps(valid).encode()))

    @given(documents(valid))
    def read_or_refused(text: str) -> None:
        try:
            result = read(RemotingCommand(0, body=text.encode()))
        except FrameError:
            return
        for value in result.addresses.items() if isinstance(result, message_requests.TopicRoute) else result:
            assert all(isinstance(part, str | int) for part in value)

    read_or_refused()


def test_a_route_with_more_queues_than_any_topic_has_is_refused() -> None:
    """Else the client would make a value for each of up to two thousand million queues."""
    for count in (message_requests.MAX_QUEUES, message_requests.MAX_QUEUES + 1):
        queues = [{"brokerName": "b", "perm": 6, "readQueueNums": count}]
        response = RemotingCommand(0, body=json.dumps({**ROUTE, "queueDatas": queues}).encode())
        if count == message_requests.MAX_QUEUES:
            assert len(message_requests.route_of("t", response).queues) == count
        else:
            with pytest.raises(FrameError):
                message_requests.route_of("t", response)


messages = st.lists(
    st.tuples(st.binary(max_size=50), st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), st.booleans())
)


@given(messages)
def test_messages_are_read_as_they_are_stored(sent: list[tuple[bytes, int, int, bool]]) -> None:
    data = b"".join(stored(body, "topic", queue, offset, compressed=zipped) for body, queue, offset, zipped in sent)
    read = list(read_messages(data))
    assert read == [
        StoredMessage("topic", queue, offset, 1_700_000_000_000, body, {"KEY": "val"})
        for body, queue, offset, _ in sent
    ]


def test_a_small_message_that_unfolds_to_a_large_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_BODY_BYTES", 1_000)
    assert next(read_messages(stored(bytes(1_000), "t", 0, 0, compressed=True))).body == bytes(1_000)
    with pytest.raises(FrameError):
        list(read_messages(stored(bytes(1_001), "t", 0, 0, compressed=True)))


@given(st.integers(0, 60))
def test_a_compressed_body_that_is_cut_off_is_refused(kept: int) -> None:
    body = zlib.compress(bytes(range(256)))
    whole = stored(body, "t", 0, 0)
    marked = bytearray(whole)
    marked[36:40] = struct.pack(">i", 1)  # the flag of a compressed body
    assert next(read_messages(bytes(marked))).body == bytes(range(256))
    cut = bytearray(stored(body[:kept], "t", 0, 0))
    cut[36:40] = struct.pack(">i", 1)
    with pytest.raises(FrameError):
        list(read_messages(bytes(cut)))


MAPS = st.dictionaries(st.integers(0, 9999), st.text("abc{}, ", max_size=6), max_size=5)


@given(MAPS, MAPS)
@example({0: ""}, {})
def test_maps_of_numbers_are_read_whatever_stands_in_them(first: dict[int, str], second: dict[int, str]) -> None:
    def written(numbered: dict[int, str]) -> str:
        return "{" + ",".join(f"{key}:{json.dumps(value)}" for key, value in numbered.items()) + "}"

    text = f'{{"a":{written(first)},"b":{written(second)}}}'
    expected = {name: {str(k): v for k, v in m.items()} for name, m in (("a", first), ("b", second))}
    assert frames.read_body(text.encode()) == expected


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    deep = DEEP.encode()
    with pytest.raises(FrameError):
        frames.read_body(deep)
    with pytest.raises(FrameError):
        decode(struct.pack(">i", len(deep)) + deep)


QUEUE = MessageQueue("t", "b", 3)
FLAGS: Collection[RemotingCommand] = (
    r.unlock("g", "c", [QUEUE]),
    r.update_offset("g", QUEUE, 5),
    r.consumers_changed("g"),
)


def test_requests_without_a_response_carry_the_flag() -> None:
    assert all(command.flag & ONEWAY_FLAG for command in FLAGS)
    assert not r.lock("g", "c", [QUEUE]).flag & ONEWAY_FLAG
