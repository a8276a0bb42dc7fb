"""Scenarios of a controller (tests/spec/cluster): what happens in ZooKeeper, and what the controller writes and requests.

broker 1 2 3                  they register
controller 1 [lost-power]     the broker's controller machine starts, perhaps after its computer lost power
topic t 0=1,2 1=2,3           the topic's node is written
kill 2, bounce 2              the broker's session is over; it comes back at once
isr t-0 1,2                   the leader writes the ISR, and a notification
delete t                      /admin/delete_topics/t
answer 2 [ERROR|kept]         the broker answers its StopReplica requests; `kept`: those alone that keep the logs
roles 2 [former] [t-0=ERROR]  the broker answers its LeaderAndIsr requests; `former`: its last process's
log-dir-event 2 [corrupt]     the broker announces that a log directory has failed
reassign t-0 2,3              AlterPartitionReassignments; `cancel t-0`, `reassignments`, and `reassign-node t-0=2,3 ...`
elect preferred|unclean t-0   ElectLeaders; `elect-node t-0 ...`
shutdown 2 [stale]            ControlledShutdown
config t key=value            the topic's settings are altered
defaults [2] unclean=true     the defaults for topics are altered, at all controllers or at one; min-isr=2
fail state [t-0=2]            the next write to such a node is done, and its response lost; then another writes that ISR
expire state                  the controller's session ends instead of the next write to such a node; it connects again
put PATH TEXT                 a tool writes a node
rival [unseen|gone]           another controller is elected
advance ms, node PATH, list PATH

The trace has the writes to ZooKeeper and the requests; the same request to several brokers is one line.
"""

from __future__ import annotations

from collections.abc import Mapping

from coterie.controller import nodes
from coterie.controller.assignment import ReplicaAssignment
from coterie.controller.commands import (
    AlterReassignments,
    Command,
    ElectionType,
    ElectLeaders,
    LeadersElected,
    ListReassignments,
    ReassignmentsAltered,
    ReassignmentsListed,
    ReplicasStopped,
    RolesAssumed,
    ShutDown,
    TopicConfigured,
)
from coterie.controller.elected.view import ControllerConfig
from coterie.controller.machine import ControllerMachine
from coterie.controller.requests import InOffice, LeaderAndIsr, Registered, Request, ShutdownAllowed, StopReplica
from coterie.laboratory.scripts.zookeeper_server import Session, ZooKeeperServer
from coterie.laboratory.world import NetworkFaults, World
from coterie.wire.errors import ErrorCode
from coterie.zookeeper import paths
from coterie.zookeeper.operations import (
    ConnectionLost,
    Create,
    Delete,
    List,
    Operation,
    Read,
    SessionExpired,
    Write,
    Znode,
    ZooKeeperError,
)
from coterie_conformance.scenarios.cluster_traces import effect_text, partition_of, write_texts
from coterie_conformance.scenarios.groups.scenario import ScenarioError, run_step

_FOREVER_MS = 10**9
_SETTLED_MS = 100  # after a step: the watches have fired


class ClusterScenario:
    """One scenario's world: a ZooKeeper, registrations of brokers, and the controller machines of some."""

    def __init__(self) -> None:
        self.world = World(1)
        self.world.faults = NetworkFaults(1, 1)
        self.server = ZooKeeperServer(self.world)
        self._admin = self.server.connect(_FOREVER_MS, lambda _: None)
        for path in (paths.BROKERS, paths.TOPICS, nodes.ISR_CHANGES, nodes.LOG_DIR_EVENTS):
            self._apply(Create(path, "", ephemeral=False))
        self._sessions: dict[int, Session] = {}
        self._machines: dict[int, ControllerMachine] = {}
        self._stops: list[StopReplica] = []
        self._roles: list[LeaderAndIsr] = []
        self._lines: list[str] = []
        self._grouped: dict[str, tuple[int, list[str]]] = {}  # text -> its line, and the brokers
        self._lost: str | None = None
        self._isrs_after_loss: Mapping[str, str] = {}
        self._expires_at: str | None = None
        self._is_unseen = False
        self._verbs = {
            "broker": self._broker,
            "controller": self._controller,
            "topic": self._topic,
            "kill": self._kill,
            "bounce": self._bounce,
            "isr": self._isr,
            "delete": lambda words, _: self._apply(Create(f"{nodes.DELETED_TOPICS}/{words[0]}", "", ephemeral=False)),
            "answer": self._respond,
            "roles": self._assume_roles,
            "log-dir-event": self._log_dir_event,
            "reassign": self._reassign,
            "cancel": lambda words, _: self._submit(AlterReassignments("", {partition_of(words[0]): None})),
            "reassignments": lambda words, _: self._submit(ListReassignments("")),
            "reassign-node": self._reassign_node,
            "elect": self._elect,
            "elect-node": self._elect_node,
            "shutdown": self._shutdown,
            "config": self._config,
            "defaults": self._defaults,
            "fail": self._fail,
            "expire": self._expire,
            "put": lambda words, _: self._apply(Write(words[0], " ".join(words[1:]))),
            "rival": self._rival,
            "advance": lambda words, _: self.world.run_until(self.world.now_ms + int(words[0])),
            "node": self._node,
            "list": self._list,
        }

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace."""
        self._lines, self._grouped = [], {}
        run_step(self._verbs, line)
        self._pump()
        self.world.run_until(self.world.now_ms + _SETTLED_MS)
        return self._lines

    # -- machines -------------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        for number, machine in sorted(self._machines.items()):
            while (effect := machine.next(self.world.now_ms)) is not None:
                if isinstance(effect, Operation):
                    self._carry_out(number, machine, effect)
                    continue
                self._effect(number, effect)
                machine.respond()

    def _carry_out(self, number: int, machine: ControllerMachine, operation: Operation) -> None:
        if self._expires_at is not None and any(self._expires_at in text for text in write_texts(operation)):
            self._expires_at = None
            self._end_session(number, machine)
            return
        try:
            result = self.server.apply(self._sessions[number], operation)
        except ZooKeeperError as error:
            machine.refuse(error)
            return
        for text in write_texts(operation):
            self._line(f"{number}: {text}")
            if self._lost is not None and self._lost in text:
                self._lost = None
                for partition, isr in self._isrs_after_loss.items():
                    self._isr([partition, isr, "quiet"], {})
                machine.refuse(ConnectionLost())
                return
        machine.respond(result)

    def _end_session(self, number: int, machine: ControllerMachine) -> None:
        self.server.close(self._sessions[number])
        self._sessions[number] = self._connect(number)
        machine.expired()
        machine.refuse(SessionExpired())

    def _effect(self, number: int, effect: object) -> None:
        match effect:
            case Registered():
                pass
            case InOffice(epoch):
                self._line(f"{number}: in office, epoch {epoch}" if epoch else f"{number}: resigns")
            case LeadersElected() | ReassignmentsAltered() | ReassignmentsListed() | ShutdownAllowed():
                self._line(f"{number}: {effect_text(effect)}")
            case _:
                assert isinstance(effect, Request)
                self._request(number, effect)

    def _request(self, number: int, request: Request) -> None:
        if isinstance(request, StopReplica):
            self._stops.append(request)
        if isinstance(request, LeaderAndIsr):
            self._roles.append(request)
        text, broker = effect_text(request), str(request.broker)
        at, brokers = self._grouped.get(text, (0, [broker]))
        if broker in brokers:
            at, brokers = len(self._lines), []
            self._lines.append("")
        brokers.append(broker)
        self._grouped[text] = at, brokers
        self._lines[at] = f"{number} -> {','.join(brokers)}: {text}"

    def _line(self, text: str) -> None:
        self._grouped = {}
        self._lines.append(text)

    def _submit(self, command: Command) -> None:
        for _, machine in sorted(self._machines.items()):
            if machine.office is not None or len(self._machines) == 1:
                machine.submit(command)

    # -- brokers --------------------------------------------------------------------------------------------------------

    def _broker(self, words: list[str], _: Mapping[str, str]) -> None:
        for word in words:
            session = self._sessions[int(word)] = self._connect(int(word))
            registration = nodes.broker(f"b{word}", 9092, None, 0)
            self.server.apply(session, Create(paths.broker(int(word)), registration))

    def _connect(self, number: int) -> Session:
        def event(path: str) -> None:
            if number in self._machines and not (self._is_unseen and path == nodes.CONTROLLER):
                self._machines[number].changed(path)
                self._pump()

        return self.server.connect(_FOREVER_MS, event)

    def _controller(self, words: list[str], options: Mapping[str, str]) -> None:
        """With unclean=true, min-isr=2, rebalance=yes, imbalance=10, interval=300."""
        config = ControllerConfig(
            int(words[0]),
            nodes.broker(f"b{words[0]}", 9092, None, 0),
            unclean_leader_election_enable=options.get("unclean") == "true",
            min_insync_replicas=int(options.get("min-isr", 1)),
            auto_leader_rebalance_enable=options.get("rebalance") == "yes",
            leader_imbalance_per_broker_percentage=int(options.get("imbalance", 10)),
            leader_imbalance_check_interval_seconds=int(options.get("interval", 300)),
            lost_power="lost-power" in words,
        )
        number = int(words[0])
        self._sessions.setdefault(number, self._connect(number))
        self._machines[number] = ControllerMachine(config, self.world.now_ms)

    def _kill(self, words: list[str], _: Mapping[str, str]) -> None:
        for word in words:
            self._machines.pop(int(word), None)
            self.server.close(self._sessions.pop(int(word)))

    def _bounce(self, words: list[str], options: Mapping[str, str]) -> None:
        """They restart between two looks of the controller."""
        self._kill(words, options)
        self._broker(words, options)

    def _rival(self, words: list[str], _: Mapping[str, str]) -> None:
        """Another controller is elected; with `unseen` the watch on /controller fires too late for the next steps. `gone`: it
        dies."""
        if "gone" in words:
            self._is_unseen = False
            self._apply(Delete(nodes.CONTROLLER))
            return
        self._is_unseen = "unseen" in words
        node = self._read(nodes.CONTROLLER_EPOCH)
        self._apply(Write(nodes.CONTROLLER_EPOCH, str(int(node.data if node else "0") + 1)))
        self._apply(Delete(nodes.CONTROLLER))
        self._apply(Create(nodes.CONTROLLER, nodes.controller(99, 0)))

    def _shutdown(self, words: list[str], _: Mapping[str, str]) -> None:
        node = self._read(paths.broker(int(words[0])))
        epoch = None if node is None else node.created - ("stale" in words)
        self._submit(ShutDown(int(words[0]), epoch))

    def _respond(self, words: list[str], _: Mapping[str, str]) -> None:
        broker, is_kept = int(words[0]), "kept" in words
        error = ErrorCode[words[1]] if len(words) > 1 and not is_kept else None
        for request in [r for r in self._stops if r.broker == broker]:
            if is_kept and any(one.delete for one in request.stopped.values()):
                continue
            self._stops.remove(request)
            self._submit(ReplicasStopped(request, {} if error is None else dict.fromkeys(request.stopped, error)))

    def _assume_roles(self, words: list[str], options: Mapping[str, str]) -> None:
        broker, node = int(words[0]), self._read(paths.broker(int(words[0])))
        is_former = "former" in words
        requests = [
            r
            for r in self._roles
            if r.broker == broker and (node is None or r.broker_epoch != node.created) == is_former
        ]
        if not requests:
            raise ScenarioError(f"broker {broker} has no LeaderAndIsr to answer")
        errors = {partition_of(name): ErrorCode[error] for name, error in options.items()}
        for request in requests:
            self._roles.remove(request)
            self._submit(RolesAssumed(request, {p: error for p, error in errors.items() if p in request.states}))

    def _log_dir_event(self, words: list[str], _: Mapping[str, str]) -> None:
        data = "none" if "corrupt" in words else nodes.log_dir_event(int(words[0]))
        self._apply(Create(f"{nodes.LOG_DIR_EVENTS}/log_dir_event_", data, ephemeral=False, sequential=True))

    # -- topics ---------------------------------------------------------------------------------------------------------

    def _topic(self, words: list[str], options: Mapping[str, str]) -> None:
        path = paths.topic(words[0])
        node = self._read(path)
        assigned: dict[int, ReplicaAssignment] = {} if node is None else nodes.assignments_of(node.data)
        assigned |= {int(p): ReplicaAssignment(_ids(ids)) for p, ids in options.items()}
        self._apply(Write(path, nodes.assignments(assigned)))

    def _isr(self, words: list[str], _: Mapping[str, str]) -> None:
        """With a notification, unless `quiet`."""
        partition, isr = partition_of(words[0]), _ids(words[1])
        path = paths.partition_state(*partition)
        node = self._read(path)
        if node is None:
            raise ScenarioError(f"{words[0]} has no state")
        held = nodes.state_of(node, ())
        text = nodes.state(held).replace(
            f'"isr":{list(held.isr)}'.replace(" ", ""), f'"isr":{list(isr)}'.replace(" ", "")
        )
        self._apply(Write(path, text))
        if "quiet" not in words:
            self._apply(nodes.isr_change([partition]))

    def _config(self, words: list[str], options: Mapping[str, str]) -> None:
        self._apply(Write(nodes.topic_config(words[0]), nodes.settings(options)))
        self._submit(TopicConfigured(words[0]))

    def _defaults(self, words: list[str], options: Mapping[str, str]) -> None:
        for number in map(int, words or self._machines):
            self._machines[number].configure(
                unclean_leader_election_enable=options.get("unclean") == "true",
                min_insync_replicas=int(options.get("min-isr", 1)),
            )

    def _reassign(self, words: list[str], options: Mapping[str, str]) -> None:
        may_change = options.get("factor-change") != "false"
        self._submit(AlterReassignments("", {partition_of(words[0]): _ids(words[1])}, may_change))

    def _reassign_node(self, _: list[str], options: Mapping[str, str]) -> None:
        targets = {partition_of(name): _ids(ids) for name, ids in options.items()}
        self._apply(Write(nodes.REASSIGNED, nodes.reassigned(targets)))

    def _elect(self, words: list[str], _: Mapping[str, str]) -> None:
        partitions = None if words[1] == "all" else tuple(map(partition_of, words[1:]))
        self._submit(ElectLeaders("", ElectionType[words[0].upper()], partitions))

    def _elect_node(self, words: list[str], _: Mapping[str, str]) -> None:
        self._apply(Write(nodes.PREFERRED_ELECTION, nodes.partitions(map(partition_of, words))))

    # -- ZooKeeper ------------------------------------------------------------------------------------------------------

    def _expire(self, words: list[str], _: Mapping[str, str]) -> None:
        self._expires_at = words[0]

    def _fail(self, words: list[str], options: Mapping[str, str]) -> None:
        self._lost, self._isrs_after_loss = words[0], options

    def _node(self, words: list[str], _: Mapping[str, str]) -> None:
        node = self._read(words[0])
        self._line("none" if node is None else node.data)

    def _list(self, words: list[str], _: Mapping[str, str]) -> None:
        names = self.server.apply(self._admin, List(words[0]))
        assert isinstance(names, list)
        self._line(" ".join(names) or "none")

    def _read(self, path: str) -> Znode | None:
        node = self.server.apply(self._admin, Read(path))
        return node if isinstance(node, Znode) else None

    def _apply(self, operation: Operation) -> None:
        self.server.apply(self._admin, operation)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(",") if word)
