"""A broker's process without file descriptors: connections and logs leave it those of its own work, so that every API is
answered, by a code where a log cannot be opened; nothing is half-made, and all works again once there are descriptors."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import KafkaError
from coterie.wire.apis import APIS
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.topics.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.awaiting import until_in_thread
from tests.broker.connections.test_server import produce
from tests.broker.handlers.test_every_version import error_codes
from tests.broker.storage.test_full_disk import NOTHING_MADE, requests, version_of
from tests.broker_process import BrokerProcess

LIMIT = 160
LINE = "no file descriptor is left"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the limit of another process is Linux's"),
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """Started with the usual limit, and then at `LIMIT`."""
    process = BrokerProcess(tmp_path / "data", log=tmp_path / "log")
    limit_to(process, LIMIT)
    yield process
    process.stop()


def limit_to(broker: BrokerProcess, descriptors: int) -> None:
    pid = broker.process.pid
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (descriptors, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))


def connected(broker: BrokerProcess) -> BrokerSocket:
    return BrokerSocket("127.0.0.1", broker.port)


@contextlib.contextmanager
def every_connection(broker: BrokerProcess) -> Iterator[None]:
    """As many idle connections as the broker takes, and some more."""
    with contextlib.ExitStack() as stack:
        for _ in range(LIMIT):
            stack.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
        with pytest.raises(KafkaError):
            connected(broker)
        yield


def written_by(broker: BrokerProcess) -> str:
    assert broker.log is not None
    return broker.log.read_text()


def folders(broker: BrokerProcess) -> list[str]:
    return sorted(path.name for path in broker.data.iterdir() if path.is_dir())


def test_every_api_is_answered_while_others_hold_all_connections(broker: BrokerProcess) -> None:
    """Before, the first request of most APIs lost its connection, with a traceback: modules are loaded when they are used."""
    requested = requests(NOTHING_MADE)
    clients = {key: connected(broker) for key in requested}
    lost: dict[str, KafkaError] = {}
    with every_connection(broker):
        for key, request in requested.items():
            try:
                clients[key].request(request, highest=version_of(key))
            except KafkaError as error:
                if error.code != ErrorCode.UNSUPPORTED_VERSION:  # not served in this state
                    lost[APIS[key].name] = error
    assert not lost
    until_in_thread(lambda: is_created(broker, "again"), lambda: "it works again")
    written = written_by(broker)
    assert LINE in written
    assert "Traceback" not in written
    assert len(written.splitlines()) < 60, written


def create(name: str, partitions: int = 1, **configs: str) -> CreateTopicsRequest:
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=settings)])


def is_created(broker: BrokerProcess, name: str) -> bool:
    try:
        return connected(broker).request(create(name)).topics[0].error_code == ErrorCode.NONE
    except KafkaError:  # the broker has not yet seen the end of the other connections
        return False


def test_a_segment_that_cannot_be_opened_refuses_records_alone(broker: BrokerProcess) -> None:
    client = connected(broker)
    client.request(create("t", segment_bytes="100"))

    def produced() -> int:
        return max(error_codes(client.request(produce(), highest=12)))  # 13 has topic ids

    codes = {produced() for _ in range(LIMIT)}
    assert codes == {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}
    before = folders(broker)
    refused = client.request(create("other", 3)).topics[0]
    assert refused.error_code == ErrorCode.INVALID_PARTITIONS, refused
    assert folders(broker) == before
    limit_to(broker, 10 * LIMIT)
    assert not any(error_codes(client.request(create("other", 3))))
    assert produced() == ErrorCode.NONE
    written = written_by(broker)
    assert "Traceback" not in written
    assert 1 <= len(written.splitlines()) < 20, written


def test_a_start_without_descriptors_is_one_sentence(broker: BrokerProcess) -> None:
    connected(broker).request(create("many", 60))
    broker.stop()
    command = [sys.executable, "-m", "coterie", "broker", "--listen", "127.0.0.1:0", "--data", str(broker.data)]
    limited = ["bash", "-c", 'ulimit -n 40; exec "$@"', "bash", *command]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    broker.start()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"Error: cannot use the data folder {broker.data}: its logs need more open files than ulimit -n allows; "
        "mend that, or choose another --data\n"
    )
