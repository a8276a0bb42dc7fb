"""All groups whose members' requests pass, the door of this room, and the explanation of one of them in the form of a broker's:
what only a broker knows is null."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.coordinator import events as e
from coterie.coordinator.journal.generations import owners_of
from coterie.coordinator.journal.line import JournalLine
from coterie.coordinator.journal.lines import JournalLines
from coterie.coordinator.state import CONSUMER, Cause, Group
from coterie.coordinator.views.classic_group import explain_group
from coterie.proxy.observed.classic_events import REQUESTS, RESPONSES, decide_beside_sync, form_held_back, left
from coterie.proxy.observed.classic_group import ANY_CONFIG, LEFT, SILENT, ObservedClassicGroup, SeenRequest
from coterie.proxy.observed.consumer_group import ObservedConsumers
from coterie.proxy.observed.patterns import ObservedPatterns
from coterie.text.phrase import Phrase, phrase_fields, read_phrase
from coterie.wire.declaration import Message
from coterie.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.topics.metadata import MetadataResponse

UNSEEN = Phrase("unseen_by_proxy", {})
HELD_BACK_MS = 1_000  # the responses of one generation come at the same time
LEAVE_CONFIRMED_WITHIN_MS = 5_000  # by the other members, whose heartbeats say that the group rebalances
WATCHED: frozenset[type[Message]] = frozenset({*REQUESTS, ConsumerGroupHeartbeatRequest})
WATCHED_KEYS = frozenset(request.api_key for request in WATCHED)


@dataclass(slots=True)
class ObservedGroups:
    """``emit`` takes each line. Times in ms since 1970; they never go back."""

    emit: Callable[[JournalLine], None]
    classic: dict[str, ObservedClassicGroup] = field(default_factory=dict)
    consumers: dict[str, ObservedConsumers] = field(default_factory=dict)
    patterns: dict[str, ObservedPatterns] = field(default_factory=dict)
    _lines: JournalLines = field(default_factory=JournalLines)
    _names: dict[bytes, str] = field(default_factory=dict)  # of topics by id

    def sent(self, seen: SeenRequest, now_ms: int) -> None:
        """A request of `WATCHED` goes to the coordinator."""
        if isinstance(seen.request, ConsumerGroupHeartbeatRequest):
            self._consumers(seen.request.group_id).in_flight.append(seen)
            return
        if self._is_of_consumers(seen.request.group_id):
            return
        one = self._classic(seen.request.group_id)
        one.in_flight.append(seen)
        one.strangers.discard(getattr(seen.request, "member_id", ""))
        REQUESTS[type(seen.request)](one, seen, now_ms)

    def responded(self, seen: SeenRequest, response: Any, now_ms: int) -> None:
        """The coordinator's response to it; None where the connection ended before."""
        self._responded(seen, response, now_ms)
        if response is not None:
            self._patterns(seen.request.group_id).responded(seen, response, now_ms)

    def _responded(self, seen: SeenRequest, response: Any, now_ms: int) -> None:
        group_id = seen.request.group_id
        if isinstance(seen.request, ConsumerGroupHeartbeatRequest):
            if group_id in self.classic and response is not None and response.error_code == 0:
                former = self.classic.pop(group_id)
                self._consumers(group_id).converted(former.group)
                if former.group.members:
                    former.apply([e.GroupRemoved(Cause("upgraded"))], now_ms)
            self._consumers(group_id).responded(seen, response, now_ms)
            return
        if self._is_of_consumers(group_id):
            self.consumers[group_id].classic_responded(seen, response, now_ms)
            return
        one = self._classic(group_id)
        is_lost_leave = response is None and isinstance(seen.request, LeaveGroupRequest)
        if seen in one.in_flight and not is_lost_leave:  # a client that leaves may not wait for the response
            one.in_flight.remove(seen)
        if response is None and isinstance(seen.request, JoinGroupRequest):
            one.lost_joins += [] if seen.request.member_id else [seen]
            if not one.has_newcomers:
                form_held_back(one, now_ms)
        if response is not None:
            RESPONSES[type(seen.request)](one, seen, response, now_ms)
        decide_beside_sync(one, now_ms)

    def topics(self, response: MetadataResponse) -> None:
        """Names of topics by id, for groups of the consumer protocol."""
        self._names.update({t.topic_id: t.name for t in response.topics if t.name is not None})

    def coordinators(self, named: Mapping[str, int], now_ms: int) -> None:
        """The brokers that coordinate groups, by their ids, as a FindCoordinator response has them."""
        for group_id, node_id in named.items():
            self._patterns(group_id).coordinator_named(node_id, now_ms)

    def advance(self, now_ms: int) -> None:
        """The time passes: reserved ids expire, and a group whose every member is silent is empty at the coordinator too."""
        for one in self.classic.values():
            group = one.group
            if one.held_back_ms + HELD_BACK_MS <= now_ms:
                form_held_back(one, now_ms)
            one.drop_reservations(now_ms)
            for lost in [o for o in one.in_flight if isinstance(o.request, LeaveGroupRequest)]:
                if lost.sent_ms + LEAVE_CONFIRMED_WITHIN_MS <= now_ms:
                    one.in_flight.remove(lost)
                    left(one, lost, None, now_ms, evidence=LEFT)
            if one.is_whole and group.members and len(one.silent(now_ms)) == len(group.members):
                one.remove_silent(now_ms, SILENT)
            self._patterns(group.group_id).waited(one, now_ms)

    def forget(self, group_id: str) -> None:
        """Begins again with what comes next."""
        self.classic.pop(group_id, None)
        self.consumers.pop(group_id, None)
        self.patterns.pop(group_id, None)

    def _emit(self, line: JournalLine) -> None:
        self.emit(line)
        self._patterns(line.group).saw(line)

    def _patterns(self, group_id: str) -> ObservedPatterns:
        one = self.patterns.get(group_id)
        if one is None:
            one = self.patterns[group_id] = ObservedPatterns(self.emit)
        return one

    def explain(self, group_id: str, now_ms: int) -> dict[str, Any] | None:
        """A classic group as `groups why` explains it; None for one that nothing is known of."""
        one = self.classic.get(group_id)
        return None if one is None else explained(one, now_ms)

    def _is_of_consumers(self, group_id: str) -> bool:
        return group_id in self.consumers and self.consumers[group_id].is_mixed

    def _classic(self, group_id: str) -> ObservedClassicGroup:
        one = self.classic.get(group_id)
        if one is None:
            one = self.classic[group_id] = ObservedClassicGroup(Group(group_id), self._lines, self._emit)
        return one

    def _consumers(self, group_id: str) -> ObservedConsumers:
        one = self.consumers.get(group_id)
        if one is None:
            one = self.consumers[group_id] = ObservedConsumers(
                group_id, self._emit, lambda topic_id: self._names.get(topic_id, topic_id.hex())
            )
        return one


def explained(one: ObservedClassicGroup, now_ms: int) -> dict[str, Any]:
    """The explanation of a group as JSON-ready values."""
    group = one.group
    document = explain_group(group, now_ms, ANY_CONFIG)
    if not one.is_whole and group.members:
        verdict = Phrase("and_some_not_seen", {"phrase": read_phrase(document["verdict_phrase"])})
        document |= phrase_fields("verdict", verdict)
    for member in document["members"]:
        member |= {"last_fetch_ms": None, "client_software": None, "last_push_ms": None, "pushed": []}
    shares = group.members.values() if group.protocol_type == CONSUMER else ()
    owned = owners_of((m.member_id, m.assignment) for m in shares)
    unknown = dict.fromkeys(("end", "lag", "unmoved_ms", "lag_ms"))
    document["partitions"] = [
        {
            "topic": topic,
            "partition": partition,
            "owner": owned.get((topic, partition)),
            "committed": None if (kept := group.offsets.get((topic, partition))) is None else kept.offset,
            "stalled": False,
        }
        | unknown
        for topic, partition in sorted({*owned, *group.offsets})
    ]
    return document | {"lag": None, "lag_ms": None, "stalled": []} | phrase_fields("unseen", UNSEEN)
