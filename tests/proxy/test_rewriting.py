"""Addresses in responses: found in each version, and nothing else changes. Generations whose leader's response, with the
list of the members, does not pass."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from coterie.assignors.blobs import encode_subscription
from coterie.coordinator.journal.line import JournalLine
from coterie.proxy.observed.classic_group import SeenRequest
from coterie.proxy.observed.groups import HELD_BACK_MS, ObservedGroups
from coterie.proxy.requests import FETCH
from coterie.proxy.rewriting import _ENDPOINTS, named_brokers, names_brokers
from coterie.wire.apis import APIS
from coterie.wire.declaration import Message, Struct
from coterie.wire.fields import FieldType
from coterie.wire.framing import decode_response, encode_response
from coterie.wire.messages.groups.find_coordinator import FindCoordinatorResponse
from coterie.wire.messages.groups.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from coterie.wire.messages.groups.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.wire.primitives import WireError

VERSIONS = [
    (key, version)
    for key in sorted(_ENDPOINTS)
    for version in range(APIS[key].response.versions.first, APIS[key].response.versions.last + 1)
    if names_brokers(key, version)
]
every_version = pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: str(value))
FIXED: dict[str, Any] = {"uuid": b"i" * 16, "boolean": True, "float64": 0.5}
START_MS, BEFORE_KIP_394 = 1_000_000, 3


def filled(shape: type[Struct], version: int, rng: random.Random) -> Any:
    """A message with something in every field that the version has."""
    return shape(**{s.name: _value(s.kind, version, rng) for s in shape.fields if version in s.versions})


def _value(kind: FieldType, version: int, rng: random.Random) -> Any:
    if kind.shape is not None:
        return filled(kind.shape, version, rng)
    if kind.element is not None:
        return [_value(kind.element, version, rng) for _ in range(rng.randint(1, 3))]
    if kind.name == "string":
        return f"host{rng.randint(1, 3)}"
    if kind.name in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 3, 500)))
    return FIXED.get(kind.name, rng.randint(1, 100))


@every_version
def test_the_addresses_of_a_response_become_others_and_nothing_else_does(key: int, version: int) -> None:
    rng = random.Random(version)
    response: Message = filled(APIS[key].response, version, rng)
    frame = encode_response(9, response, version)
    named = named_brokers(key, version, frame)
    assert named is not None
    addresses = named.addresses()
    assert addresses
    assert named.frame({}) == frame
    mapping = {address: ("127.0.0.1", 40_000 + n) for n, address in enumerate(addresses)}
    rewritten = named.frame(mapping)
    assert rewritten != frame
    assert int.from_bytes(rewritten[:4], "big") == len(rewritten) - 4
    again = named_brokers(key, version, rewritten)
    assert again is not None
    assert set(again.addresses()) == set(mapping.values())
    back = {ours: theirs for theirs, ours in mapping.items()}
    assert again.frame(back) == frame
    assert decode_response(APIS[key].response, rewritten[4:], version) != response


@pytest.mark.parametrize("version", [16, 17, 18])
@pytest.mark.parametrize("seed", range(10))
def test_a_fetch_without_endpoints_is_left_as_it_is(version: int, seed: int) -> None:
    response = filled(APIS[FETCH].response, version, random.Random(seed))
    response.node_endpoints = []
    assert named_brokers(FETCH, version, encode_response(1, response, version)) is None


def test_a_coordinator_that_is_not_known_has_no_address() -> None:
    response = FindCoordinatorResponse(error_code=15, node_id=-1, port=-1)
    assert named_brokers(10, 2, encode_response(1, response, 2)) is None


@every_version
def test_a_response_that_is_cut_short_is_an_error_of_the_wire(key: int, version: int) -> None:
    frame = encode_response(9, filled(APIS[key].response, version, random.Random(1)), version)
    for size in range(8, len(frame), max(len(frame) // 50, 1)):
        try:
            named_brokers(key, version, frame[:size])
        except WireError:
            continue
        else:
            assert key == FETCH or size > 8


@pytest.mark.parametrize("key", sorted(_ENDPOINTS))
def test_a_version_that_is_not_known_cannot_be_read(key: int) -> None:
    with pytest.raises(WireError):
        named_brokers(key, 99, b"\0\0\0\x14" + bytes(10) + b"\x01" * 10)


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
