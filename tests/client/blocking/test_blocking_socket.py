"""A blocking connection's responses: whole, in order, within memory that the broker has sent for."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from coterie.client.connection import blocking_socket
from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError
from coterie.wire.framing import Head, encode_response, read_head
from coterie.wire.messages.clients.api_versions import ApiVersion, ApiVersionsResponse
from coterie.wire.messages.groups.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

Respond = Callable[[socket.socket, list[int]], None]
Serve = Callable[[Respond], BrokerSocket]
VERSION = 0


def group(size: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id="g" * n) for n in (size // 2, size - size // 2)])


def framed(correlation_id: int, size: int) -> bytes:
    return encode_response(correlation_id, group(size), VERSION)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A connection to a broker that responds to three requests, as the function that is given does, and closes."""
    opened: list[socket.socket | BrokerSocket] = []
    threads: list[threading.Thread] = []

    def start(respond: Respond) -> BrokerSocket:
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)

        def run() -> None:
            accepted, _ = listener.accept()
            with accepted, accepted.makefile("rb") as requests:

                def request() -> Head:
                    return read_head(requests.read(int.from_bytes(requests.read(4), "big")))

                hello, keys = request(), [ApiVersion(DescribeGroupsRequest.api_key, VERSION, VERSION)]
                versions = ApiVersionsResponse(api_keys=keys)
                accepted.sendall(encode_response(hello.correlation_id, versions, hello.api_version))
                respond(accepted, [request().correlation_id for _ in range(3)])

        threads.append(threading.Thread(target=run))
        threads[0].start()
        host, port = listener.getsockname()
        connection = BrokerSocket(host, port, timeout_s=20)
        opened.append(connection)
        return connection

    yield start
    for thread in threads:
        thread.join(20)
    for one in opened:
        one.close()


def received(connection: BrokerSocket) -> list[DescribeGroupsResponse]:
    awaited = [connection.send(DescribeGroupsRequest(["g"])) for _ in range(3)]
    return [connection.receive(one) for one in awaited]


@pytest.mark.parametrize("cut", [1, 7, 1_000, 10**6])
def test_responses_arrive_whole_however_the_network_cuts_them(
    serve: Serve, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_socket, "BUFFER_BYTES", 64)
    monkeypatch.setattr(blocking_socket, "CLAIM_BYTES", 500)
    sizes = (3, 60, 4_000)

    def respond(to: socket.socket, ids: list[int]) -> None:
        sent = b"".join(framed(number, size) for number, size in zip(ids, sizes, strict=True))
        for at in range(0, len(sent), cut):
            to.sendall(sent[at : at + cut])

    assert received(serve(respond)) == [group(size) for size in sizes]


def test_a_claim_takes_little_memory(serve: Serve) -> None:
    """The broker claims a response of 500 MB, sends 20 bytes of it and closes the connection."""

    def respond(to: socket.socket, _: list[int]) -> None:
        to.sendall((500_000_000).to_bytes(4, "big") + bytes(20))

    connection = serve(respond)
    tracemalloc.start()
    try:
        with pytest.raises(KafkaError, match="the broker closed the connection"):
            received(connection)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
