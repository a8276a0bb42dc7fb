"""Topics are created, enlarged and deleted in a cluster by nodes in ZooKeeper, which the controller watches (Kafka's
AdminManager and AdminZkClient), and looked up there, where a broker's view may be older."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence

from coterie.broker.cluster.cluster_view import ClusterView
from coterie.broker.settings import BrokerSettings
from coterie.broker.storage.topic import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    internal_configs,
    internal_partitions,
)
from coterie.broker.storage.topics import Topics
from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment, assign_replicas
from coterie.coordinator.journal.line import TOPIC as JOURNAL_TOPIC
from coterie.coordinator.share_state.state import SHARE_STATE_TOPIC
from coterie.wire.errors import ErrorCode, Refusal
from coterie.zookeeper import paths
from coterie.zookeeper.operations import BadVersion, Create, NodeExists, Operation, Read, Write, Znode, ZooKeeperError

logger = logging.getLogger(__name__)

Assignment = Mapping[int, Sequence[int]]


class TopicAdministration:
    """``apply`` carries an operation out in ZooKeeper. A change is done when this broker's view shows it. ``new_topic_id``:
    None where a broker before Kafka 2.8 may be in the cluster, which knows none. ``assign_replicas`` chooses the brokers of new
    partitions; it may raise Refusal."""

    def __init__(
        self,
        settings: BrokerSettings,
        topics: Topics,
        view: ClusterView,
        apply: Callable[[Operation], Awaitable[object]],
        rng: random.Random,
        new_topic_id: Callable[[], bytes] | None = None,
    ) -> None:
        self._settings, self._topics, self._view, self._apply, self._rng = settings, topics, view, apply, rng
        self._new_topic_id = new_topic_id
        self.assign_replicas: Callable[..., dict[int, tuple[int, ...]]] = assign_replicas
        self._creating: dict[str, asyncio.Task[None]] = {}
        self._viewers: list[asyncio.Future[None]] = []

    def view_changed(self) -> None:
        """To be called after each change of the view."""
        viewers, self._viewers = self._viewers, []
        for viewer in viewers:
            if not viewer.done():
                viewer.set_result(None)

    # -- any broker -----------------------------------------------------------------------------------------------------

    def create_soon(self, name: str, configs: Mapping[str, str] | None = None) -> ErrorCode:
        """Creates a topic that a client needs, with the broker's settings, as any broker may: the client repeats its request.
        Returns LEADER_NOT_AVAILABLE, or INVALID_REPLICATION_FACTOR where too few brokers live. ``configs``: settings of its
        own."""
        if not self._view.live:
            return ErrorCode.LEADER_NOT_AVAILABLE  # the controller has not sent the brokers and topics yet
        own, share = self._settings.current, self._settings.share
        factor = {
            OFFSETS_TOPIC: own.offsets_topic_replication_factor,
            TRANSACTIONS_TOPIC: own.transaction_state_log_replication_factor,
            SHARE_STATE_TOPIC: share.share_coordinator_state_topic_replication_factor,
            JOURNAL_TOPIC: own.offsets_topic_replication_factor,
        }.get(name, own.default_replication_factor)
        count = 1 if name == JOURNAL_TOPIC else internal_partitions(self._settings).get(name, own.num_partitions)
        try:
            assigned = self.assign(count, factor)
        except Refusal as refusal:
            logger.error("%s cannot be created: %s", name, refusal)
            return refusal.code
        if name not in self._creating:
            task = asyncio.get_running_loop().create_task(self._create_logged(name, assigned, configs))
            self._creating[name] = task
            task.add_done_callback(lambda _: self._creating.pop(name))
        return ErrorCode.LEADER_NOT_AVAILABLE

    async def _create_logged(self, name: str, assigned: Assignment, configs: Mapping[str, str] | None) -> None:
        try:
            await self.create(name, assigned, self._configs(name) if configs is None else configs)
            logger.info("created topic %s, which a client requested", name)
        except (Refusal, ZooKeeperError) as error:
            logger.info("topic %s, which a client requested, was not created: %r", name, error)

    def _configs(self, name: str) -> dict[str, str]:
        configs = internal_configs(name, self._settings)
        if name == TRANSACTIONS_TOPIC:
            own = self._settings.current
            least = min(own.transaction_state_log_min_isr, own.transaction_state_log_replication_factor)
            configs["min.insync.replicas"] = str(least)
        if name == SHARE_STATE_TOPIC:
            share = self._settings.share
            least = min(
                share.share_coordinator_state_topic_min_isr, share.share_coordinator_state_topic_replication_factor
            )
            configs["min.insync.replicas"] = str(least)
        return configs

    def assign(self, partitions: int, replication_factor: int) -> dict[int, tuple[int, ...]]:
        """Partition -> live brokers. Raises Refusal INVALID_REPLICATION_FACTOR."""
        count = max(len(self._view.live), 1)
        start_index, shift = self._rng.randrange(count), self._rng.randrange(count)
        return self._assigned(partitions, replication_factor, start_index, shift, 0)

    def _added_to(self, first: Sequence[int], now: int, count: int) -> dict[int, tuple[int, ...]]:
        """Partitions ``now`` to ``count`` of a topic whose partition 0 has the replicas ``first``: the leaders go round from
        that one's, as in Kafka."""
        start_index = next((index for index, broker in enumerate(sorted(self._view.live)) if broker >= first[0]), 0)
        return self._assigned(count - now, len(first), start_index, start_index, now)

    def _assigned(
        self, partitions: int, replication_factor: int, start_index: int, shift: int, first_partition: int
    ) -> dict[int, tuple[int, ...]]:
        brokers = sorted(self._view.live)
        if not 0 < replication_factor <= len(brokers):
            text = f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}."
            raise Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, text)
        return self.assign_replicas(
            brokers,
            partitions,
            replication_factor,
            start_index=start_index,
            shift=shift,
            first_partition=first_partition,
        )

    # -- the controller's broker ----------------------------------------------------------------------------------------

    async def create(self, name: str, assigned: Assignment, configs: Mapping[str, str]) -> None:
        """Raises Refusal TOPIC_ALREADY_EXISTS, and ZooKeeperError."""
        if await self._apply(Read(paths.topic(name))) is not None:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        content = json.dumps({"version": 1, "config": dict(configs)}, separators=(",", ":"))
        await self._apply(Write(f"/config/topics/{name}", content))
        try:
            topic_id = None if self._new_topic_id is None else self._new_topic_id()
            await self._apply(Create(paths.topic(name), nodes.topic(assigned, topic_id), ephemeral=False))
        except NodeExists:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.") from None

    async def enlarge(self, name: str, count: int, assigned: Assignment | None, *, validate_only: bool) -> None:
        """To ``count`` partitions; the new ones are ``assigned``, or go round. Raises Refusal, ZooKeeperError."""
        while True:
            node = await self._apply(Read(paths.topic(name)))
            if not isinstance(node, Znode):
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            now = nodes.assignments_of(node.data)
            _check_enlargeable(name, now)
            added = assigned or self._added_to(now[0].replicas, len(now), count)
            every = {**now, **{number: ReplicaAssignment(tuple(ids)) for number, ids in added.items()}}
            data = nodes.assignments(every, nodes.topic_id_of(node.data))
            try:
                if not validate_only:
                    await self._apply(Write(paths.topic(name), data, node.version))
                return
            except BadVersion:
                continue

    async def delete(self, name: str) -> None:
        """The controller deletes it once all its replicas are there. Raises ZooKeeperError."""
        try:
            await self._apply(Create(f"/admin/delete_topics/{name}", "", ephemeral=False))
        except NodeExists:
            return

    # -- waiting --------------------------------------------------------------------------------------------------------

    async def until_led(self, name: str, count: int, timeout_ms: int) -> None:
        """Until each partition has a leader. Raises Refusal REQUEST_TIMED_OUT."""

        def led() -> bool:
            states = [self._view.states.get((name, index)) for index in range(count)]
            topic = self._topics.by_name.get(name)
            is_announced = topic is not None and len(topic.partitions) >= count
            return is_announced and all(state is not None and state.leader in self._view.live for state in states)

        await self._until(led, timeout_ms)

    async def until_gone(self, name: str, timeout_ms: int) -> None:
        """Until the topic is deleted. Raises Refusal REQUEST_TIMED_OUT."""
        await self._until(lambda: name not in self._topics.by_name, timeout_ms)

    async def _until(self, done: Callable[[], bool], timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(max(timeout_ms, 0) / 1000):
                while not done():
                    viewer = asyncio.get_running_loop().create_future()
                    self._viewers.append(viewer)
                    await viewer
        except TimeoutError:
            raise Refusal(ErrorCode.REQUEST_TIMED_OUT) from None

    def close(self) -> None:
        for task in self._creating.values():
            task.cancel()


def _check_enlargeable(name: str, now: Mapping[int, ReplicaAssignment]) -> None:
    """Raises Refusal."""
    if any(assignment.is_reassigned for assignment in now.values()):
        text = f"Partitions of topic {name} are being reassigned; add partitions once that has ended."
        raise Refusal(ErrorCode.REASSIGNMENT_IN_PROGRESS, text)
    if 0 not in now:
        text = f"Unexpected replica assignment of topic {name} in ZooKeeper: partition 0 is missing."
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, text)


class ZooKeeperTopics:
    """``apply`` carries an operation out in ZooKeeper."""

    def __init__(self, apply: Callable[[Operation], Awaitable[object]]) -> None:
        self._apply = apply
        self._tasks: set[asyncio.Task[None]] = set()

    def look_up(self, topic: str, done: Callable[[set[int] | None], None]) -> None:
        """``done`` gets the topic's partitions later, none for a topic that is deleted, or None where ZooKeeper does not
        respond."""
        task = asyncio.get_running_loop().create_task(self._look_up(topic, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_up(self, topic: str, done: Callable[[set[int] | None], None]) -> None:
        try:
            node = await self._apply(Read(paths.topic(topic)))
        except ZooKeeperError:
            done(None)
        else:
            done(set(nodes.replicas_of(node.data)) if isinstance(node, Znode) else set())

    async def close(self) -> None:
        """Look-ups that are under way are dropped."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
