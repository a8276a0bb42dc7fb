"""What `coterie consume` reports while it waits: for a topic that does not exist, for an assignment. `coterie produce`
puts many lines into batches at once, and `coterie consume` writes many values at once: what comes out is what went in."""

from __future__ import annotations

import asyncio
import io
import random
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli import consume, main
from coterie.cli.produce import lines_of
from coterie.client import Admin, KafkaError, Producer
from coterie.client.blocking import BlockingConsumer
from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import until


def settings(broker: LocalBroker, **more: Any) -> dict[str, Any]:
    given = {"bootstrap.servers": broker.bootstrap_servers, "group.id": None, "auto.offset.reset": "latest"}
    return given | {key.replace("_", "."): value for key, value in more.items()}


async def reported(capsys: pytest.CaptureFixture[str]) -> str:
    """The first line on stderr."""
    lines: list[str] = []

    def read() -> bool:
        lines.append(capsys.readouterr().err)
        return lines[-1].endswith("\n")

    await until(read, "a line on stderr")
    return "".join(lines)


async def reading(broker: LocalBroker, topic: str, timeout_ms: int | None = None, **more: Any) -> None:
    async with asyncio.timeout(30):
        await consume._read(asyncio.Event(), settings(broker, **more), topic, 2, timeout_ms, as_json=False)


async def test_a_missing_topic_is_reported_and_read_from_its_first_record_once_it_exists(
    coterie_broker: LocalBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waited for ever and reported nothing, also when the topic was created."""
    address = {"bootstrap.servers": coterie_broker.bootstrap_servers}
    running = asyncio.create_task(reading(coterie_broker, "late"))
    report = await reported(capsys)
    assert report == "topic late does not exist; waiting until it is created\n"
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topic("late", 1)
        await producer.send("late", b"one")
        await producer.send("late", b"two")
    await running
    assert capsys.readouterr().out == "one\ntwo\n"


def test_a_missing_topic_ends_after_the_timeout(coterie_broker: LocalBroker) -> None:
    asyncio.run(reading(coterie_broker, "never", timeout_ms=300))


def test_a_name_that_no_topic_can_have_is_an_error(coterie_broker: LocalBroker) -> None:
    with pytest.raises(KafkaError, match="INVALID_TOPIC_EXCEPTION: topic a b"):
        asyncio.run(reading(coterie_broker, "a b"))


async def test_a_group_that_does_not_assign_is_reported_once(
    coterie_broker: LocalBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consume, "JOIN_NOTICE_S", 0.1)
    coterie_broker.create_topic("t", 1)
    coterie_broker.produce("t", b"one", b"two")
    with coterie_broker.hold("JoinGroup"):
        running = asyncio.create_task(
            reading(coterie_broker, "t", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
        )
        report = await reported(capsys)
    await running
    assert report == "waiting for partitions of t from group g; for the reason: coterie groups why g\n"
    assert capsys.readouterr() == ("one\ntwo\n", "")


class Dribbling(io.BytesIO):
    """Returns as few bytes as it likes, as a pipe does."""

    def __init__(self, data: bytes, seed: int) -> None:
        super().__init__(data)
        self._rng = random.Random(seed)

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._rng.randint(1, 5))

    def fileno(self) -> int:
        raise OSError


@given(st.binary(max_size=60) | st.text("a\n", max_size=40).map(str.encode), st.integers(0, 9))
def test_lines_are_the_same_however_they_are_read(data: bytes, seed: int) -> None:
    async def read() -> list[bytes]:
        return [line async for lines in lines_of(Dribbling(data, seed)) for line in lines]

    whole = data.split(b"\n")
    assert asyncio.run(read()) == (whole[:-1] if whole[-1] == b"" else whole)


def run(broker: LocalBroker, line: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    done = CliRunner().invoke(main, [*line.split(), "-b", broker.bootstrap_servers], input=stdin)
    return done.exit_code, done.stdout_bytes, done.stderr


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
def test_what_goes_in_comes_out(coterie_broker: LocalBroker, codec: str) -> None:
    rng = random.Random(1)
    lines = [bytes(rng.choices(b"abcdefgh ", k=rng.randrange(3_000))) for _ in range(1_500)]
    coterie_broker.create_topic("t", 1)
    sent = b"".join(line + b"\n" for line in lines)
    assert run(coterie_broker, f"produce t --compression {codec}", sent) == (0, b"", "1,500 records acknowledged\n")
    code, output, _ = run(coterie_broker, "consume t --from-beginning -n 1500")
    assert (code, output) == (0, sent)


def test_keys_and_lines_without_one(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 4)
    assert run(coterie_broker, "produce t -K ::", b"a::1\nno key\nb::2::3\n::4\n\n")[0] == 0
    settings = {"bootstrap.servers": coterie_broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    records = []
    with BlockingConsumer(settings) as consumer:
        consumer.subscribe(["t"])
        while len(records) < 5:
            records += [record for polled in consumer.poll(100).values() for record in polled]
    expected = {(b"a", b"1"), (None, b"no key"), (b"b", b"2::3"), (b"", b"4"), (None, b"")}
    assert {(record.key, record.value) for record in records} == expected


def test_a_serializer_still_works(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    line = "produce t --set value.serializer=ByteArraySerializer"
    assert run(coterie_broker, line, b"one\ntwo\n") == (0, b"", "2 records acknowledged\n")
    assert run(coterie_broker, "consume t --from-beginning -n 2")[1] == b"one\ntwo\n"


@pytest.mark.parametrize("setting", ["", " --set value.serializer=ByteArraySerializer"])
def test_records_that_are_not_acknowledged_end_it_with_1(coterie_broker: LocalBroker, setting: str) -> None:
    coterie_broker.create_topic("t", 1)
    coterie_broker.fail("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=9)
    code, _, sentence = run(coterie_broker, f"produce t{setting}", b"one\ntwo\n")
    assert (code, "TOPIC_AUTHORIZATION_FAILED" in sentence) == (1, True)


def test_the_larger_batches_are_only_a_default(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 1)
    before = coterie_broker.requested("Produce")
    assert (
        run(coterie_broker, "produce t --set batch.size=1 --set max.in.flight.requests.per.connection=1", b"a\nb\n")[0]
        == 0
    )
    assert coterie_broker.requested("Produce") == before + 2
