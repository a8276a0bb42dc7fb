"""A Spark task at a batch that cannot be read: one error that names partition and offset, and no fewer records than asked."""

from __future__ import annotations

import pytest

from coterie.client.errors import CorruptBatchError
from coterie.client.settings.settings import client_settings
from coterie.pipeline.reading import fetching
from coterie.pipeline.reading.fetching import fetched, read_range
from coterie.pipeline.reading.planning import OffsetRange
from coterie.records.compression import CODEC_BY_NAME
from coterie.records.encoding import encode_batch
from coterie.testing import LocalBroker
from coterie.wire.messages.logs.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.client.fetching.test_damaged_batches import DAMAGES, batch, put


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_range_with_a_damaged_batch_fails_at_its_offset(coterie_broker: LocalBroker, damage: str) -> None:
    coterie_broker.create_topic("t", 1)
    for data in (batch(b"a", b"b"), DAMAGES[damage], batch(b"c")):
        put(coterie_broker, 0, bytes(data))
    requested = OffsetRange("t", 0, 0, 4, coterie_broker.host, coterie_broker.port)
    with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 2: "):
        for _ in read_range(requested, client_settings({}), with_headers=True, fail_on_data_loss=True):
            pass


def test_a_length_that_cannot_be_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bytes(batch(b"a"))
    data = PartitionData(0, records=whole[:8] + b"\0\0\0\x01" + whole[12:])

    class Socket:
        def __init__(self, *_: object, **__: object) -> None:
            self.closed = False

        def send(self, *_: object, **__: object) -> None:
            return

        def receive(self, _: object) -> FetchResponse:
            return FetchResponse(responses=[FetchableTopicResponse("t", partitions=[data])])

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(fetching, "BrokerSocket", Socket)
    monkeypatch.setattr(fetching, "_sockets", {})
    with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 3: "):
        list(fetched(OffsetRange("t", 0, 3, 5, "127.0.0.1", 1), client_settings({})))


def test_a_range_that_unfolds_to_very_much_is_read_in_pieces(coterie_broker: LocalBroker) -> None:
    """A fetch of some megabytes may hold more than the 2 GiB of an Arrow column: a Spark task failed by that."""
    coterie_broker.create_topic("t", 1)
    for _ in range(4):
        put(coterie_broker, 0, encode_batch([(5, None, bytes(1_000_000), ())] * 10, codec=CODEC_BY_NAME["zstd"]))
    wanted = OffsetRange("t", 0, 5, 38, coterie_broker.host, coterie_broker.port)
    pieces = list(read_range(wanted, client_settings({}), with_headers=True, fail_on_data_loss=True))
    assert [piece.offsets.tolist() for piece in pieces] == [list(range(5, 20)), list(range(20, 38))]
