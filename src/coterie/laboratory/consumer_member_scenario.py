"""Scenarios of one member of the consumer protocol (tests/spec/consumer_member): what its user, driver and coordinator do, and
everything that follows.

== testHeartbeatOnStartup
subscribe t
    UNSUBSCRIBED -> JOINING
    find the coordinator
coordinator found
    Heartbeat epoch=0 timeout=300000 topics=t owns=-
heartbeat epoch=1 assigned=t-0
    JOINING -> RECONCILING
    look up t
topics t
    on_partitions_assigned t-0 of t-0 epoch=1

The form is that of `member_scenario`. `heartbeat` is the response to the one in flight: `epoch=` (as before where it is
left out), `assigned=t-0+t-1` (`-`: nothing; left out: no assignment), `interval=`, or an error's name. `topics t u` names
these topics' ids; `topics` alone: the lookup failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from coterie.laboratory.consumer_member_checker import ConsumerMemberChecker, check_member_settled
from coterie.laboratory.member_scenario import operation_of
from coterie.laboratory.scenario import ScenarioError
from coterie.laboratory.scenario_requests import topic_id_of
from coterie.member.consumer.config import ConsumerMemberConfig
from coterie.member.consumer.effects import Complain, ConsumerEffect, LookUpTopics
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.effects import Assigned, Failed, FindCoordinator, Revoke, Send, TopicPartition
from coterie.wire.declaration import Message
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

INTERVAL_MS = 5_000
Options = dict[str, str]


class ConsumerMemberScenario:
    """One member and its virtual time. ``config`` comes before everything else."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.trace: list[str] = []
        self._in_flight: list[Message] = []
        self._begin(ConsumerMemberConfig("g", "me"))
        self._verbs: dict[str, Callable[[list[str], Options], None]] = {
            "config": self._config,
            "subscribe": lambda words, options: self.machine.subscribe(
                frozenset(words), self.now_ms, options.get("regex")
            ),
            "poll": lambda *_: self.machine.polled(self.now_ms),
            "prepare-leave": lambda *_: self.machine.prepare_leave(),
            "leave": lambda words, options: self.machine.leave(" ".join(words), operation_of(options)),
            "coordinator": self._coordinator,
            "heartbeat": self._heartbeat,
            "disconnect": lambda *_: self.machine.lost_connection(self._in_flight.pop(0), self.now_ms),
            "topics": self._topics,
            "revoked": lambda *_: self.machine.revoked(),
            "assigned": lambda *_: self.machine.assigned(),
            "raised": lambda *_: self.machine.callback_failed(),
            "elsewhere": self._elsewhere,
            "refused": lambda words, _: self.machine.membership_refused(ErrorCode[words[0]]),
            "failed": lambda words, _: self.machine.failed(ErrorCode[words[0]]),
            "advance": self._advance,
            "deadline": self._deadline,
            "state": self._state,
        }

    def _begin(self, config: ConsumerMemberConfig) -> None:
        self.checker = ConsumerMemberChecker()
        self.checker.stages = [self.checker.state.stage]
        self.machine = ConsumerMemberMachine(config, self.checker.observe)

    def step(self, line: str) -> list[str]:
        """Runs one step; returns its trace."""
        self.trace = []
        words = line.split()
        if words[0] not in self._verbs:
            raise ScenarioError(f"{words[0]!r} is not a step; there are {', '.join(sorted(self._verbs))}")
        options = dict(w.split("=", 1) for w in words[1:] if "=" in w)
        self._verbs[words[0]]([w for w in words[1:] if "=" not in w], options)
        self._settle("")
        return self.trace

    def _settle(self, prefix: str) -> None:
        """Everything that is due now, as lines."""
        effects: list[ConsumerEffect] = []
        while more := self.machine.next(self.now_ms):
            effects += more
        self.checker.check(self.machine)
        check_member_settled(self.machine, self.now_ms)
        stages = self.checker.stages
        if len(stages) > 1:
            self.trace.append(prefix + " -> ".join(stage.name for stage in stages))
        self.checker.stages = stages[-1:]
        for effect in effects:
            if isinstance(effect, Send):
                self._in_flight.append(effect.request)
            self.trace.append(prefix + describe_member_effect(effect))

    # -- the user and the clock -------------------------------------------------------------------------------------------

    def _config(self, words: list[str], options: Options) -> None:
        """Settings by the names of `ConsumerMemberConfig`."""
        known = {field.name for field in fields(ConsumerMemberConfig)}
        if not options.keys() <= known:
            raise ScenarioError(f"there is no setting {', '.join(sorted(options.keys() - known))}")
        values = {name: int(value) if name.endswith("_ms") else value for name, value in options.items()}
        self._begin(ConsumerMemberConfig("g", "me", **values))  # type: ignore[arg-type]

    def _advance(self, words: list[str], options: Options) -> None:
        until_ms = self.now_ms + int(words[0])
        while (due_ms := self.machine.next_deadline_ms()) is not None and due_ms <= until_ms:
            self.now_ms = due_ms
            self._settle(f"@{due_ms} ")
        self.now_ms = until_ms

    def _deadline(self, words: list[str], options: Options) -> None:
        due_ms = self.machine.next_deadline_ms()
        self.trace.append("no deadline" if due_ms is None else f"due at {due_ms}")

    def _state(self, words: list[str], options: Options) -> None:
        machine, state = self.machine, self.machine.state
        lost = " lost" if machine.lost else ""
        in_group = " in the group" if machine.is_in_group else ""
        reported = sorted((_name(topic), number) for topic, number in state.assignment.current.partitions)
        self.trace.append(
            f"{machine.stage.name} epoch={state.epochs.epoch} owned={_names(machine.owned)}{lost} "
            f"reports={_names(tuple(reported))} poll by {machine.poll_deadline_ms}{in_group}"
        )

    # -- the coordinator and the driver -----------------------------------------------------------------------------------

    def _coordinator(self, words: list[str], options: Options) -> None:
        """``coordinator found`` or ``coordinator unavailable``: the result of the lookup."""
        if words == ["found"]:
            self.machine.coordinator_found()
        else:
            self.machine.lookup_failed(self.now_ms)

    def _heartbeat(self, words: list[str], options: Options) -> None:
        if not self._in_flight:
            raise ScenarioError("there is no heartbeat to respond to")
        request = self._in_flight.pop(-1 if "newest" in words else 0)
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        codes = [word for word in words if word.isupper()]
        response = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode[codes[0]] if codes else 0,
            error_message=None,
            member_id=request.member_id,
            member_epoch=int(options.get("epoch", request.member_epoch)),
            heartbeat_interval_ms=int(options.get("interval", INTERVAL_MS)),
        )
        if "assigned" in options:
            pairs = (item.rpartition("-") for item in options["assigned"].split("+") if item != "-")
            topics = [TopicPartitions(topic_id_of(topic), [int(number)]) for topic, _, number in pairs]
            response.assignment = Assignment(topics)
        self.machine.answered(request, response, self.now_ms)

    def _topics(self, words: list[str], options: Options) -> None:
        self.machine.topics_looked_up({topic_id_of(name): name for name in words}, self.now_ms)

    def _elsewhere(self, words: list[str], options: Options) -> None:
        """A heartbeat that the driver sends beside the machine."""
        self.trace.append(_describe_heartbeat(self.machine.full_heartbeat()))
        self.machine.heartbeat_sent_elsewhere()


def _name(topic_id: bytes) -> str:
    return topic_id.decode().strip(".")


def _names(partitions: tuple[TopicPartition, ...]) -> str:
    return ",".join(f"{topic}-{number}" for topic, number in partitions) or "-"


def describe_member_effect(effect: ConsumerEffect) -> str:
    """One line."""
    match effect:
        case FindCoordinator():
            return "find the coordinator"
        case Send(request):
            assert isinstance(request, ConsumerGroupHeartbeatRequest)
            return _describe_heartbeat(request)
        case Revoke(partitions, lost):
            return f"{'on_partitions_lost' if lost else 'on_partitions_revoked'} {_names(partitions)}"
        case Assigned(partitions, epoch, added):
            return f"on_partitions_assigned {_names(added)} of {_names(partitions)} epoch={epoch}"
        case LookUpTopics(topic_ids):
            return f"look up {','.join(sorted(map(_name, topic_ids)))}"
        case Complain(code, message):
            return f"COMPLAINT {code.name}: {message}"
        case Failed(code, message):
            return f"FAILED {code.name}: {message}"


def _describe_heartbeat(request: ConsumerGroupHeartbeatRequest) -> str:
    """The fields that it carries."""
    parts = [f"Heartbeat epoch={request.member_epoch}"]
    if request.instance_id is not None:
        parts.append(f"instance={request.instance_id}")
    if request.rack_id is not None:
        parts.append(f"rack={request.rack_id}")
    if request.rebalance_timeout_ms != -1:
        parts.append(f"timeout={request.rebalance_timeout_ms}")
    if request.server_assignor is not None:
        parts.append(f"assignor={request.server_assignor}")
    if request.subscribed_topic_names is not None:
        parts.append(f"topics={','.join(request.subscribed_topic_names) or '-'}")
    if request.subscribed_topic_regex is not None:
        parts.append(f"regex={request.subscribed_topic_regex or '-'}")
    if request.topic_partitions is not None:
        owned = tuple((_name(t.topic_id), number) for t in request.topic_partitions for number in t.partitions)
        parts.append(f"owns={_names(owned)}")
    return " ".join(parts)
