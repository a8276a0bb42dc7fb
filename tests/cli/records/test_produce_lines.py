"""`coterie produce` puts many lines into batches at once, and `coterie consume` writes many values at once: what comes out is
what went in."""

from __future__ import annotations

import asyncio
import io
import random

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli import main
from coterie.cli.produce import lines_of
from coterie.client.blocking import BlockingConsumer
from coterie.testing import ErrorCode, LocalBroker


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
