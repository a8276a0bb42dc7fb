"""When a ZooKeeper counts as started: not before it opens sessions. Servers of one response stand for its phases."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from coterie.testing.local_zookeeper import is_serving


@contextmanager
def server_that_responds(response: bytes) -> Iterator[int]:
    """Its port. Each connection gets ``answer`` to its four letters, and is closed."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            assert self.rfile.read(4) == b"srvr"
            self.wfile.write(response)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize(
    ("response", "is_started"),
    [
        pytest.param(b"", False, id="closes without an answer"),
        pytest.param(b"This ZooKeeper instance is not currently serving requests\n", False, id="loads its data"),
        pytest.param(b"Zookeeper version: 3.9.3, built on 2024-10-17\nMode: standalone\n", True, id="serves"),
    ],
)
def test_a_zookeeper_counts_as_started_once_it_opens_sessions(response: bytes, is_started: bool) -> None:
    with server_that_responds(response) as port:
        assert is_serving(port) is is_started
    assert not is_serving(port), "a port without a server"
