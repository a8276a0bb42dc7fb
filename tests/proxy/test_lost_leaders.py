"""Generations whose leader's response, with the list of the members, does not pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.journal.line import JournalLine
from coterie.proxy.observed.classic_group import SeenRequest
from coterie.proxy.observed.groups import HELD_BACK_MS, ObservedGroups
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse

START_MS, BEFORE_KIP_394 = 1_000_000, 3


class Passing:
    """Requests of the group g, and their responses, a second apart."""

    def __init__(self) -> None:
        self.lines: list[JournalLine] = []
        self.groups = ObservedGroups(self.lines.append)
        self.now_ms = START_MS

    def sent(self, request: Any, client: str) -> SeenRequest:
        self.now_ms += 1_000
        seen = SeenRequest(request, BEFORE_KIP_394, client, "/10.0.0.1", self.now_ms)
        self.groups.sent(seen, self.now_ms)
        return seen

    def join(self, client: str, member_id: str = "") -> SeenRequest:
        protocol = JoinGroupRequestProtocol("range", encode_subscription(["orders"]))
        return self.sent(JoinGroupRequest("g", 60_000, 60_000, member_id, None, "consumer", [protocol]), client)

    def joined(self, seen: SeenRequest, member_id: str, leader: str, generation: int = 1) -> None:
        response = JoinGroupResponse(0, 0, generation, "consumer", "range", leader, False, member_id)
        self.groups.responded(seen, response, self.now_ms)

    def sync(self, client: str, member_id: str, generation: int = 1) -> None:
        seen = self.sent(SyncGroupRequest("g", generation, member_id), client)
        self.groups.responded(seen, SyncGroupResponse(), self.now_ms)

    def causes(self, event: str) -> list[list[tuple[str, str]]]:
        lines = [line for line in self.lines if line.event == event]
        return [[(c["kind"], c.get("client_id", "")) for c in line.causes] for line in lines]


def cut(passing: Passing, lost: SeenRequest) -> None:
    passing.groups.responded(lost, None, passing.now_ms)


def time_passes(passing: Passing, _: SeenRequest) -> None:
    passing.groups.advance(passing.now_ms + HELD_BACK_MS)


def nothing(_: Passing, __: SeenRequest) -> None:
    """The member's SyncGroup tells."""


@pytest.mark.parametrize("then", [cut, time_passes, nothing])
def test_the_generation_is_formed_of_the_other_responses(then: Callable[[Passing, SeenRequest], None]) -> None:
    passing = Passing()
    anna, ben = passing.join("anna"), passing.join("ben")
    passing.joined(ben, "ben-1", "anna-1")
    assert passing.causes("generation_formed") == []
    then(passing, anna)
    passing.sync("ben", "ben-1")
    assert passing.causes("stable") == [[("member_joined", "anna"), ("member_joined", "ben")]]


def test_a_newcomer_that_comes_later_is_one_of_the_next_generation() -> None:
    passing = Passing()
    ben = passing.join("ben")
    cleo = passing.join("cleo")
    passing.joined(ben, "ben-1", "ben-1")
    passing.sync("ben", "ben-1")
    assert passing.causes("stable") == [[("member_joined", "ben")]]
    ben = passing.join("ben", "ben-1")
    passing.joined(ben, "ben-1", "ben-1", 2)
    passing.joined(cleo, "cleo-1", "ben-1", 2)
    passing.sync("ben", "ben-1", 2)
    assert passing.causes("stable")[1:] == [[("leader_rejoined", "ben"), ("member_joined", "cleo")]]
