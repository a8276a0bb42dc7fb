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

from collections.abc import Mapping
from typing import Any

from coterie.laboratory.brokers.consumer_broker_actor import topic_id_of
from coterie.laboratory.member_checkers import ConsumerMemberChecker
from coterie.member.config import ConsumerMemberConfig
from coterie.member.consumer.decision import Complain, ConsumerEffect, LookUpTopics
from coterie.member.consumer.heartbeat import HeartbeatRequest
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.member.effects import Assigned, Failed, FindCoordinator, Revoke, Send
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from coterie.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from coterie_conformance.scenarios.groups.scenario import ScenarioError
from coterie_conformance.scenarios.members.lone_member_scenario import (
    LoneMemberScenario,
    Options,
    callback_text,
    partitions_text,
)

INTERVAL_MS = 5_000


class ConsumerMemberScenario(LoneMemberScenario[ConsumerMemberMachine]):
    """One member of the consumer protocol. ``requests``: the heartbeats in flight."""

    config_class = ConsumerMemberConfig

    def __init__(self) -> None:
        super().__init__()
        self.verbs |= {
            "subscribe": lambda words, options: self.machine.subscribe(
                frozenset(words), self.now_ms, options.get("regex")
            ),
            "prepare-leave": lambda *_: self.machine.prepare_leave(),
            "heartbeat": self._heartbeat,
            "disconnect": lambda *_: self.machine.lost_connection(self.requests.pop(0), self.now_ms),
            "topics": self._topics,
            "assigned": lambda *_: self.machine.assigned(),
            "raised": lambda *_: self.machine.callback_failed(),
            "elsewhere": self._elsewhere,
            "refused": lambda words, _: self.machine.membership_refused(ErrorCode[words[0]]),
            "failed": lambda words, _: self.machine.failed(ErrorCode[words[0]]),
        }

    def begin(self, settings: Mapping[str, Any]) -> None:
        self.checker = ConsumerMemberChecker()
        self.machine = ConsumerMemberMachine(ConsumerMemberConfig("g", "me", **settings), self.checker.observe)

    def effect_text(self, effect: ConsumerEffect) -> str:
        return describe_member_effect(effect)

    def state_text(self) -> str:
        machine, state = self.machine, self.machine.state
        lost = " lost" if machine.lost else ""
        in_group = " in the group" if machine.is_in_group else ""
        reported = sorted((_name(topic), number) for topic, number in state.assignment.current.partitions)
        return (
            f"{machine.stage.name} epoch={state.epochs.epoch} owned={partitions_text(machine.owned)}{lost} "
            f"reports={partitions_text(reported)} poll by {machine.poll_deadline_ms}{in_group}"
        )

    # -- the coordinator and the driver -----------------------------------------------------------------------------------

    def _heartbeat(self, words: list[str], options: Options) -> None:
        if not self.requests:
            raise ScenarioError("there is no heartbeat to respond to")
        request = self.requests.pop(-1 if "newest" in words else 0)
        assert isinstance(request, HeartbeatRequest)
        codes = [word for word in words if word.isupper()]
        shares = isinstance(request, ShareGroupHeartbeatRequest)
        response = (ShareGroupHeartbeatResponse if shares else ConsumerGroupHeartbeatResponse)(
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
        self.machine.responded(request, response, self.now_ms)

    def _topics(self, words: list[str], options: Options) -> None:
        self.machine.topics_looked_up({topic_id_of(name): name for name in words}, self.now_ms)

    def _elsewhere(self, words: list[str], options: Options) -> None:
        """A heartbeat that the driver sends beside the machine."""
        self.trace.append(_describe_heartbeat(self.machine.full_heartbeat()))
        self.machine.heartbeat_sent_elsewhere()


class ShareMemberScenario(ConsumerMemberScenario):
    """One member of a share group (tests/spec/share_member): its heartbeats are ShareGroupHeartbeats."""

    def begin(self, settings: Mapping[str, Any]) -> None:
        super().begin({**settings, "shares": True})


def _name(topic_id: bytes) -> str:
    return topic_id.decode().strip(".")


def describe_member_effect(effect: ConsumerEffect) -> str:
    """One line."""
    match effect:
        case FindCoordinator():
            return "find the coordinator"
        case Send(request):
            assert isinstance(request, HeartbeatRequest)
            return _describe_heartbeat(request)
        case Revoke() | Assigned():
            return callback_text(effect, "epoch")
        case LookUpTopics(topic_ids):
            return f"look up {','.join(sorted(map(_name, topic_ids)))}"
        case Complain(code, message):
            return f"COMPLAINT {code.name}: {message}"
        case Failed(code, message):
            return f"FAILED {code.name}: {message}"


def _describe_heartbeat(request: HeartbeatRequest) -> str:
    """The fields that it carries."""
    parts = [f"Heartbeat epoch={request.member_epoch}"]
    if isinstance(request, ShareGroupHeartbeatRequest):
        parts[0] = f"Share{parts[0]}"
        parts += [] if request.rack_id is None else [f"rack={request.rack_id}"]
        topics = request.subscribed_topic_names
        return " ".join(parts if topics is None else [*parts, f"topics={','.join(topics) or '-'}"])
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
        parts.append(f"owns={partitions_text(owned)}")
    return " ".join(parts)
