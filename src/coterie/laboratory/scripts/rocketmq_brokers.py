"""The laboratory's RocketMQ brokers: heartbeats, notices of changes, offsets, queue locks.

Each broker knows the clients by their connections. One that closes is known at once; one that falls silent after 120 s,
at the next scan, which is every 10 s. Whenever a broker's list of a group changes it notifies every client of that group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coterie.laboratory.world import Service, Traffic, World
from coterie.rocketmq import requests
from coterie.rocketmq.allocation import MessageQueue
from coterie.rocketmq.queue_locks import QueueLocks
from coterie.rocketmq.requests import RemotingCommand, encode

CHANNEL_EXPIRED_MS = 120_000
SCAN_INTERVAL_MS = 10_000
REQUESTS_PER_S = 20_000  # small ones, of one broker


@dataclass(slots=True)
class Channel:
    """A client's connection to one broker. ``notify`` is called when the group changes."""

    client_id: str
    notify: Callable[[], None]
    last_heartbeat_ms: int
    reachable: bool = True
    notice_pending: bool = False


@dataclass(slots=True)
class _Group:
    channels: dict[str, Channel] = field(default_factory=dict)
    sorted_ids: tuple[str, ...] | None = None  # until it changes
    list_bytes: int = 0


class RemotingTraffic(Traffic):
    """The traffic of all brokers together, in the bytes of the real protocol."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._sizes: dict[tuple[int, int], int] = {}

    def command(self, command: RemotingCommand, response_bytes: int = 0) -> None:
        """A request of that kind, and its response if it has one. Requests of a kind are of about one size."""
        key = command.code, len(command.body)
        if key not in self._sizes:
            self._sizes[key] = len(encode(command))
        self.passed(1, self._sizes[key])
        if response_bytes:
            self.passed(1, response_bytes)


RESPONSE_BYTES = len(encode(RemotingCommand(0, {})))


class SimulatedBroker:
    """One broker: its queues' offsets and locks, and the clients of one group that it knows."""

    def __init__(self, world: World, name: str, group: str, traffic: RemotingTraffic) -> None:
        self.world, self.name, self.group, self.traffic = world, name, group, traffic
        self.offsets: dict[MessageQueue, int] = {}
        self.locks = QueueLocks()
        self.notifications = 0
        self.on_removed: Callable[[str], None] = lambda _: None
        self.sends_notices = True  # whether this broker's notices get through
        self._clients = _Group()
        self._service = Service(world, REQUESTS_PER_S)
        self._scanning = False

    def ready_ms(self) -> int:
        """When the response to what comes now leaves."""
        self._service.serve()
        return self._service.ready_ms()

    # -- clients --------------------------------------------------------------------------------------------------------

    def heartbeat(self, client_id: str, notify: Callable[[], None]) -> None:
        """A new one makes the group change."""
        known = self._clients.channels.get(client_id)
        if known is not None:
            known.last_heartbeat_ms, known.reachable = self.world.now_ms, True
            return
        self._clients.channels[client_id] = Channel(client_id, notify, self.world.now_ms)
        self._changed()
        if not self._scanning:
            self._scanning = True
            self.world.after(SCAN_INTERVAL_MS, self._scan)

    def closed(self, client_id: str) -> None:
        """The connection is closed, or the client unregistered."""
        if self._clients.channels.pop(client_id, None) is not None:
            self.on_removed(client_id)
            self._changed()

    def unreachable(self, client_id: str) -> None:
        """No message reaches it any more, though its connection is open."""
        channel = self._clients.channels.get(client_id)
        if channel is not None:
            channel.reachable = False

    def clients(self) -> tuple[str, ...]:
        """The registered client ids, in no significant order; the same tuple until they change."""
        group = self._clients
        if group.sorted_ids is None:
            group.sorted_ids = tuple(sorted(group.channels))
            group.list_bytes = sum(len(client_id) + 3 for client_id in group.sorted_ids) + 20
        return group.sorted_ids

    def list_bytes(self) -> int:
        self.clients()
        return self._clients.list_bytes + RESPONSE_BYTES

    def _changed(self) -> None:
        self._clients.sorted_ids = None
        channels = list(self._clients.channels.values())
        if not self.sends_notices:
            return
        self.notifications += len(channels)
        self.traffic.passed(len(channels), _NOTICE_BYTES * len(channels))
        for channel in channels:
            if channel.reachable and not channel.notice_pending:  # a pending notice says the same
                channel.notice_pending = True
                self.world.after(self.world.delay_ms(), lambda channel=channel: _arrive(channel))  # type: ignore[misc]

    def _scan(self) -> None:
        expired_ms = self.world.now_ms - CHANNEL_EXPIRED_MS
        for channel in list(self._clients.channels.values()):
            if channel.last_heartbeat_ms < expired_ms:
                self.closed(channel.client_id)
        self.world.after(SCAN_INTERVAL_MS, self._scan)


def _arrive(channel: Channel) -> None:
    channel.notice_pending = False
    channel.notify()


_NOTICE_BYTES = len(encode(requests.consumers_changed("group")))


class SimulatedCluster:
    """Brokers and a name server; each topic's queues, spread over the brokers one by one."""

    def __init__(self, world: World, group: str, brokers: int = 2) -> None:
        self.world, self.group = world, group
        self.traffic = RemotingTraffic(world)
        self.brokers = {
            f"broker-{n}": SimulatedBroker(world, f"broker-{n}", group, self.traffic) for n in range(brokers)
        }
        self.routes: dict[str, tuple[MessageQueue, ...]] = {}

    def create_topic(self, topic: str, queues: int) -> None:
        """``queues`` in all; also gives a topic more."""
        names = list(self.brokers)
        created = [MessageQueue(topic, names[n % len(names)], n // len(names)) for n in range(queues)]
        self.routes[topic] = tuple(sorted(created))

    def of(self, queue: MessageQueue) -> SimulatedBroker:
        return self.brokers[queue.broker_name]

    def by_broker(self, queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
        """The queues by the name of their broker."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        return by_broker
