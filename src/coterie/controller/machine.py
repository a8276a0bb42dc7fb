"""A broker's part in the cluster: it registers, stands for controller, and, once elected, decides (Kafka's KafkaController).

A `SessionScript`. Inputs beside its own: `changed` (a watch fired), `connected`, `suspended`,
`expired`, `submit` (what others request of the controller). Its steps in office are in `office`.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import replace

from coterie.controller import nodes
from coterie.controller.commands import Command, DefaultsConfigured, refusal
from coterie.controller.elected.office import ActiveController
from coterie.controller.elected.session import Moved
from coterie.controller.elected.view import ControllerConfig
from coterie.controller.requests import InOffice, Registered
from coterie.controller.session_script import SessionScript
from coterie.machines.script import Steps, Wait
from coterie.replication.states import NO_LEADER, TopicPartition
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    BadVersion,
    Create,
    List,
    Multi,
    MultiRefused,
    NodeExists,
    Read,
    SessionExpired,
    Write,
    Znode,
)

FIRST_EPOCH = 0  # of /controller_epoch before the first controller
RETRY_MS = 1_000


class ControllerMachine(SessionScript):
    """One for each broker of the cluster. ``office`` is None while another broker is the controller."""

    def __init__(self, config: ControllerConfig, now_ms: int) -> None:
        super().__init__(self._life(), now_ms)
        self._leaves_isrs = config.lost_power
        self.config = config
        self.office: ActiveController | None = None
        self.events: deque[str | Command] = deque()  # paths that changed, and what is requested
        self._expired = self._closing = False

    # -- what happens to it ---------------------------------------------------------------------------------------------

    def changed(self, path: str) -> None:
        self.events.append(path)
        self.nudge()

    def submit(self, command: Command) -> None:
        """The response is an effect with the command's token, NOT_CONTROLLER from a broker that is not in office."""
        self.events.append(command)
        self.nudge()

    def configure(self, *, unclean_leader_election_enable: bool, min_insync_replicas: int) -> None:
        """The defaults for topics that were altered at this broker; the controller's own are in force in its cluster."""
        self.config = replace(
            self.config,
            unclean_leader_election_enable=unclean_leader_election_enable,
            min_insync_replicas=min_insync_replicas,
        )
        self.submit(DefaultsConfigured())

    def expired(self) -> None:
        self._expired = True
        self.nudge()

    def close(self) -> None:
        """The machine finishes; the driver ends the session."""
        self._closing = True
        self.nudge()

    # -- its life -------------------------------------------------------------------------------------------------------

    def _life(self) -> Steps[None]:
        while not self._closing:
            self._expired = False
            yield from self._drop_events()
            try:
                if self._leaves_isrs:
                    yield from self._leave_isrs()
                yield from self._register()
                while not self._closing:
                    yield from self._stand()
            except SessionExpired:
                yield from self._resign()
                while not self._connected:
                    yield Wait(None)

    def _leave_isrs(self) -> Steps[None]:
        """A power cut may have taken the end of the logs: the broker leaves each ISR that has other members, before it can
        lead. Apache Kafka 2.6 does not, and loses acknowledged records when such a replica is the first one back; KIP-966 has
        Kafka's own way, which needs KRaft. Leaders learn of it by the UpdateMetadata that follows the notification."""
        left: list[TopicPartition] = []
        for name in (yield from self.perform(List(paths.TOPICS))):
            node: Znode | None = yield from self.perform(Read(paths.topic(name)))
            for number, replicas in {} if node is None else nodes.replicas_of(node.data).items():
                if self.config.broker_id in replicas:
                    has_left = yield from self._leave_isr(paths.partition_state(name, number), replicas)
                    left += [(name, number)] if has_left else []
        if left:
            yield from self.perform(nodes.isr_change(left))
        self._leaves_isrs = False

    def _leave_isr(self, path: str, replicas: tuple[int, ...]) -> Steps[bool]:
        """Whether the ISR is without this broker; it may have left before, and died before it notified."""
        while (node := (yield from self.perform(Read(path)))) is not None:
            state = nodes.state_of(node, replicas)
            others = tuple(replica for replica in state.isr if replica != self.config.broker_id)
            if not others or others == state.isr:
                return bool(others)
            leader = NO_LEADER if state.leader == self.config.broker_id else state.leader
            try:
                yield from self.perform(
                    Write(path, nodes.state(replace(state, leader=leader, isr=others)), node.version)
                )
            except BadVersion:
                continue  # its leader or the controller was first
            return True
        return False

    def _register(self) -> Steps[None]:
        """A former process's node goes with its session; until then the broker waits."""
        path = paths.broker(self.config.broker_id)
        while not self._closing:
            with suppress(NodeExists):
                yield from self.perform(Create(path, self.config.registration))
            node: Znode | None = yield from self.perform(Read(path))
            if node is not None and node.mine:
                yield Registered(node.created)
                return
            yield Wait(self.now_ms + RETRY_MS)

    def _stand(self) -> Steps[None]:
        """One candidacy: elected, or waiting for the controller's node to change."""
        node: Znode | None = yield from self.perform(Read(nodes.CONTROLLER, watch=True))
        epoch: tuple[int, int] | None = None
        if node is None or node.mine:
            epoch = yield from self._elect(is_mine=node is not None)
        if epoch is None:
            yield from self._wait_for_change()
            return
        self.office = ActiveController(self, *epoch)
        yield InOffice(epoch[0])
        with suppress(Moved):
            yield from self.office.run()
        yield from self._resign()

    def _resign(self) -> Steps[None]:
        if self.office is not None:
            self.office = None
            yield InOffice(0)
        yield from self._drop_events()

    def _drop_events(self) -> Steps[None]:
        """What others have requested is refused."""
        while self.events:
            event = self.events.popleft()
            response = None if isinstance(event, str) else refusal(event)
            if response is not None:
                yield response

    def _wait_for_change(self) -> Steps[None]:
        while nodes.CONTROLLER not in self.events:
            yield from self._drop_events()
            if not self.events:
                yield from self.wait(None)
        yield from self._drop_events()

    def _elect(self, *, is_mine: bool) -> Steps[tuple[int, int] | None]:
        """The controller's node and the next epoch, in one transaction. -> the epoch and the version of its node; None where
        another was first. Refused or without a response, it may still have been done: then the nodes say so."""
        if not is_mine:
            yield from self._make_epoch_node()
        held: Znode = yield from self.perform(Read(nodes.CONTROLLER_EPOCH))
        if is_mine:  # the transaction of a lost response; nobody can have written since
            return int(held.data), held.version
        epoch = int(held.data) + 1
        own = Create(nodes.CONTROLLER, nodes.controller(self.config.broker_id, self.now_ms))
        try:
            yield from self.perform(Multi((own, Write(nodes.CONTROLLER_EPOCH, str(epoch), held.version))))
        except MultiRefused:
            node: Znode | None = yield from self.perform(Read(nodes.CONTROLLER))
            if node is None or not node.mine:
                return None
        return epoch, held.version + 1

    def _make_epoch_node(self) -> Steps[None]:
        if (yield from self.perform(Read(nodes.CONTROLLER_EPOCH))) is None:
            with suppress(NodeExists):  # another candidate's
                yield from self.perform(Create(nodes.CONTROLLER_EPOCH, str(FIRST_EPOCH), ephemeral=False))

    def is_over(self) -> bool:
        return self._expired or self._closing

    def wait(self, until_ms: int | None) -> Steps[None]:
        """Raises SessionExpired."""
        yield Wait(until_ms)
        if self.is_over():
            raise SessionExpired
