"""Members of a streams group (KIP-1071) by raw requests, as the threads of Kafka Streams send them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.testing import LocalBroker
from coterie.wire.messages.streams.streams_group_heartbeat import (
    InternalTopic,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TaskOffset,
    Topology,
)
from tests.awaiting import until_in_thread

WORD_COUNT = Topology(
    0,
    [
        Subtopology("0", ["lines"], repartition_sink_topics=["app-words-repartition"]),
        Subtopology(
            "1",
            repartition_source_topics=[InternalTopic("app-words-repartition")],
            state_changelog_topics=[InternalTopic("app-words-changelog")],
        ),
    ],
)
AT_ONCE = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}


def by_role(response: Any) -> dict[str, list[tuple[str, int]]]:
    """The tasks of a heartbeat's response."""
    return {
        role: [(t.subtopology_id, p) for t in getattr(response, f"{role}_tasks") or [] for p in t.partitions]
        for role in ("active", "standby", "warmup")
    }


@dataclass(slots=True)
class StreamsThread:
    """A thread of an instance: its process is ``process``. It reports as its own whatever it was assigned last."""

    socket: BrokerSocket
    name: str
    process: str
    group: str = "app"
    topology: Topology = field(default_factory=lambda: WORD_COUNT)
    instance_id: str | None = None
    epoch: int = 0
    tasks: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def request(self, epoch: int, **fields: Any) -> StreamsGroupHeartbeatRequest:
        """The heartbeat of that epoch; 0 joins."""
        fields = {
            f"{role}_tasks": _task_ids(self.tasks.get(role, [])) for role in ("active", "standby", "warmup")
        } | fields
        if epoch == 0:
            joining = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "topology": self.topology}
            fields |= joining | {"process_id": self.process, "rebalance_timeout_ms": 30_000}
        return StreamsGroupHeartbeatRequest(self.group, self.name, epoch, instance_id=self.instance_id, **fields)

    def beat(self, **fields: Any) -> Any:
        """A heartbeat, with the tasks that were assigned before; the response, whatever it is."""
        response = self.socket.request(self.request(self.epoch, **fields))
        if not response.error_code:
            self.epoch = response.member_epoch
            if response.active_tasks is not None:
                self.tasks = by_role(response)
        return response

    def restored(self, offset: int, end_offset: int) -> Any:
        """Reports how far each of its tasks with state is."""
        stateful = [t for tasks in self.tasks.values() for t in tasks if t[0] == "1"]
        return self.beat(
            task_offsets=[TaskOffset(*task, offset) for task in stateful],
            task_end_offsets=[TaskOffset(*task, end_offset) for task in stateful],
        )

    def leave(self, epoch: int = -1, **fields: Any) -> Any:
        """The last heartbeat."""
        return self.socket.request(
            StreamsGroupHeartbeatRequest(self.group, self.name, epoch, instance_id=self.instance_id, **fields)
        )


def _task_ids(tasks: list[tuple[str, int]]) -> list[TaskIds]:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology_id, partition in tasks:
        by_subtopology.setdefault(subtopology_id, []).append(partition)
    return [TaskIds(subtopology_id, partitions) for subtopology_id, partitions in by_subtopology.items()]


def settle(*threads: StreamsThread, until: Callable[[], bool]) -> None:
    """Heartbeats of all in turn."""

    def beaten() -> bool:
        for thread in threads:
            response = thread.beat()
            assert not response.error_code, response
        return until()

    until_in_thread(beaten, "the members have their tasks")


@contextmanager
def streams_broker(
    settings: dict[str, str] | None = None, partitions: int = 2
) -> Iterator[tuple[LocalBroker, BrokerSocket]]:
    """A broker with the topic ``lines``."""
    with LocalBroker(AT_ONCE | (settings or {})) as broker:
        broker.create_topic("lines", partitions)
        opened = BrokerSocket(broker.host, broker.port)
        try:
            yield broker, opened
        finally:
            opened.close()
