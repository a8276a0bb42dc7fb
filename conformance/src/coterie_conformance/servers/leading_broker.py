"""A cluster of our brokers that is asked as one: broker 1 leads every partition, coordinates every group and transaction, and
controls, so that nobody needs another address. All else is a cluster's: what is written waits for two followers, topics and
settings go through ZooKeeper and the controller, markers are written after the end of a transaction is decided. What a lone
broker does at once takes its time here.

`python -m coterie_conformance.servers.leading_broker BROKERS [--set NAME=VALUE ...]`, until SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

from coterie.broker.cluster.settings import ClusterConfig, cluster_config
from coterie.broker.settings import BrokerSettings
from coterie.testing.cluster_brokers import ClusterBrokers
from coterie.testing.faults import Faults
from coterie.text.addresses import format_address
from coterie.wire.errors import ErrorCode, Refusal

# A lone broker's: its topics have one replica, as far as anybody asks. A follower that met a partition before its leader
# did fetches again soon.
SETTINGS = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "replica.fetch.backoff.ms": "20",
}


class LedByTheFirst(ClusterBrokers):
    """``settings`` are those of each broker. Timeouts are long: a busy machine is not to end a session, with new leaders."""

    session_timeout_ms = 60_000

    def __init__(self, settings: Mapping[str, object], brokers: int) -> None:
        super().__init__({}, brokers, (), Faults(), ())
        self.settings = {**SETTINGS, **settings}

    def config(self, broker_id: int, rack: str | None, settings: BrokerSettings) -> ClusterConfig:
        return replace(cluster_config(settings), broker_id=broker_id)

    async def start(self) -> None:
        """Returns once each broker knows all of them."""
        await super().start()
        for one in self.brokers.values():
            assert one.broker.topic_changes is not None
            one.broker.topic_changes.assign_replicas = _led_by_the_first


def _led_by_the_first(
    brokers: Sequence[int], partitions: int, replication_factor: int, *, first_partition: int, **_: int
) -> dict[int, tuple[int, ...]]:
    """Replicas on all brokers. Raises Refusal for a topic with more than a lone broker has."""
    if replication_factor > 1 and not first_partition:
        raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "asked as one broker, it has one replica")
    return {number: tuple(brokers) for number in range(first_partition, first_partition + partitions)}


async def _serve(settings: Mapping[str, str], brokers: int) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    cluster = LedByTheFirst(settings, brokers)
    await cluster.start()
    first = cluster.brokers[1]
    print(f"listening on {format_address(first.host, first.port)}", flush=True)
    await ended.wait()
    await cluster.stop()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    arguments = parser.parse_args()
    settings = dict(line.split("=", 1) for line in arguments.settings)
    asyncio.run(_serve(settings, arguments.brokers))


if __name__ == "__main__":
    main()
