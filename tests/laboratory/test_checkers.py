"""The laboratory's judges of groups: each passes what is right, and finds the defect that its rule names.

A rule that no defect breaks would let every story pass.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.assignors.blobs import encode_assignment
from coterie.coordinator import events as e
from coterie.coordinator.outcome import CoordinatorConfig, Outcome
from coterie.coordinator.shard import Decision, Shard, Step
from coterie.coordinator.state import LEGAL_PREDECESSORS, CommittedOffset, Group, Member, Phase, Reservation
from coterie.laboratory.group_checkers import (
    GenerationChecker,
    Ledger,
    OffsetChecker,
    check_group,
    check_replay,
)

T0 = ("t", 0)


def member(member_id: str, *partitions: int, static: str | None = None) -> Member:
    protocols = (("range", b"r"), ("sticky", b"s"))
    assignment = encode_assignment({"t": list(partitions)})
    return Member(member_id, static, "c", "/h", 10_000, 20_000, protocols, assignment, deadline_ms=20, queued_ms=10)


def stable_group() -> Group:
    """Two members, one of them static, that own a partition each; one committed offset."""
    group = Group("g", phase=Phase.STABLE, protocol_type="consumer", generation=3, protocol="range", leader="a")
    group.members = {"a": member("a", 0), "b": member("b", 1, static="i")}
    group.static_members = {"i": "b"}
    group.protocol_counts = Counter({"range": 2, "sticky": 2})
    group.reservations = {"c": Reservation(30, queued_ms=5)}
    group.offsets = {T0: offset(7)}
    return group


def offset(number: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 0)


def shard_of(*groups: Group) -> Shard:
    shard = Shard(CoordinatorConfig())
    shard.groups = {group.group_id: group for group in groups}
    return shard


# -- one group ----------------------------------------------------------------------------------------------------------


def preparing(group: Group) -> None:
    group.phase, group.join_deadline_ms = Phase.PREPARING, 40


DEFECTS: dict[str, tuple[Callable[[Group], object], str]] = {
    "a protocol counted twice": (lambda g: g.protocol_counts.update(["range"]), "3 members counted for range, 2 have"),
    "a leader that has gone": (lambda g: setattr(g, "leader", "z"), "the leader is not a member"),
    "a join of none": (lambda g: (preparing(g), g.waiting_joins.update(z=1)), "a stranger waits to join"),
    "a sync of none": (
        lambda g: (setattr(g, "phase", Phase.COMPLETING), g.waiting_syncs.update(z=1)),
        "a stranger waits to sync",
    ),
    "a reserved id that is used": (lambda g: g.reservations.update(a=Reservation(30, 5)), "both pending and a member"),
    "another's instance id": (lambda g: g.static_members.update(i="a"), "i stands for a, whose instance id is None"),
    "a member without deadline": (lambda g: setattr(g.members["a"], "queued_ms", -1), "a has no deadline"),
    "a look too late": (lambda g: setattr(g.members["a"], "queued_ms", 21), "a's deadline would be missed"),
    "a reservation for ever": (lambda g: setattr(g.reservations["c"], "queued_ms", -1), "c is reserved for ever"),
    "a join phase for ever": (lambda g: setattr(g, "phase", Phase.PREPARING), "the join phase has no end"),
    "members of an empty group": (lambda g: setattr(g, "phase", Phase.EMPTY), "is Empty and has members"),
    "members of a dead group": (lambda g: setattr(g, "phase", Phase.DEAD), "is Dead and has members"),
    "a join that waits in STABLE": (lambda g: g.waiting_joins.update(a=1), "a join waits in Stable"),
    "a sync that waits in STABLE": (lambda g: g.waiting_syncs.update(a=1), "a sync waits in Stable"),
}


def test_a_sound_group_passes() -> None:
    group = stable_group()
    check_group(group)
    preparing(group)
    group.waiting_joins = {"a": 1}
    check_group(group)
    group.phase, group.waiting_joins, group.waiting_syncs = Phase.COMPLETING, {}, {"b": 2}
    check_group(group)
    check_group(Group("new"))


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_a_group_is_seen(defect: str) -> None:
    change, message = DEFECTS[defect]
    group = stable_group()
    change(group)
    with pytest.raises(AssertionError, match=re.escape(message)):
        check_group(group)


# -- steps --------------------------------------------------------------------------------------------------------------


def step(before: Phase, after: Phase, generation: int = 3) -> Step:
    return Step("g", e.OffsetStored("t", 0, offset(1)), before, after, generation)


@pytest.mark.parametrize("before", Phase)
@pytest.mark.parametrize("after", Phase)
def test_a_transition_passes_where_the_table_has_it(before: Phase, after: Phase) -> None:
    legal = before == after or before in LEGAL_PREDECESSORS[after] or before == Phase.DEAD
    try:
        GenerationChecker().check(step(before, after), stable_group())
    except AssertionError as error:
        outcome = str(error)
    else:
        outcome = ""
    assert outcome.startswith(f"g: {before} to {after}") == (not legal), outcome


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_a_generation_that_goes_back_is_seen(generations: list[int]) -> None:
    checker, highest, group = GenerationChecker(), 0, stable_group()
    for generation in generations:
        if generation < highest:
            with pytest.raises(AssertionError, match=f"generation {generation} after {highest}"):
                checker.check(step(Phase.STABLE, Phase.STABLE, generation), group)
            return
        checker.check(step(Phase.STABLE, Phase.STABLE, generation), group)
        highest = generation


def test_a_group_that_was_deleted_begins_anew() -> None:
    checker, group = GenerationChecker(), stable_group()
    checker.check(step(Phase.STABLE, Phase.STABLE, 9), group)
    checker.check(step(Phase.STABLE, Phase.DEAD, 9), group)
    checker.check(step(Phase.EMPTY, Phase.EMPTY, 1), group)


def test_two_owners_of_a_partition_are_seen() -> None:
    group = stable_group()
    GenerationChecker().check(step(Phase.COMPLETING, Phase.STABLE), group)
    group.members["b"].assignment = encode_assignment({"t": [0]})
    with pytest.raises(AssertionError, match="a partition has two owners"):
        GenerationChecker().check(step(Phase.COMPLETING, Phase.STABLE), group)


# -- responses ----------------------------------------------------------------------------------------------------------


REFUSALS = {
    ("requested", "open"): "was submitted twice",
    ("requested", "answered"): "was used before",
    ("answer", "new"): "was never submitted",
    ("answer", "answered"): "had two responses",
}


@given(st.lists(st.tuples(st.sampled_from(["requested", "answer", "forgotten"]), st.integers(0, 2)), max_size=12))
def test_the_ledger_takes_each_token_once_through_its_life(actions: list[tuple[str, int]]) -> None:
    """Against a model: new -> open -> answered; an open one whose connection broke may be submitted again."""
    ledger, life = Ledger(), dict.fromkeys(range(3), "new")
    for action, token in actions:
        good = action == "forgotten" or life[token] == {"requested": "new", "answer": "open"}[action]
        call = {
            "requested": lambda t: ledger.requested(t),
            "answer": lambda t: ledger.respond(t),
            "forgotten": lambda t: ledger.forgotten({t}),
        }
        if not good:
            refusal = REFUSALS[action, life[token]]
            with pytest.raises(AssertionError, match=f"token {token} {refusal}"):
                call[action](token)
            return
        call[action](token)
        if action == "forgotten":
            life[token] = "new" if life[token] == "open" else life[token]
        else:
            life[token] = {"requested": "open", "answer": "answered"}[action]
    assert ledger.open == {t for t, stage in life.items() if stage == "open"}


def test_a_request_that_waits_nowhere_or_twice_is_seen() -> None:
    group, ledger = stable_group(), Ledger()
    ledger.requested(1)
    with pytest.raises(AssertionError, match=r"no response will come for \['1'\]"):
        ledger.check_parked(shard_of(group))
    group.waiting_joins = {"a": 1}
    ledger.check_parked(shard_of(group))
    group.waiting_syncs = {"b": 1}
    with pytest.raises(AssertionError, match="waits in two places"):
        ledger.check_parked(shard_of(group))


# -- what is kept -------------------------------------------------------------------------------------------------------

LOSSES: dict[str, tuple[Callable[[Shard], object], str]] = {
    "the group": (lambda s: s.groups.clear(), "g is not in the log"),
    "an offset": (lambda s: s.groups["g"].offsets.clear(), "the log gives other offsets"),
    "an older offset": (lambda s: s.groups["g"].offsets.update({T0: offset(6)}), "the log gives other offsets"),
    "a member": (lambda s: s.groups["g"].members.pop("b"), "by the log"),
    "the generation": (lambda s: setattr(s.groups["g"], "generation", 2), "by the log"),
    "an assignment": (lambda s: setattr(s.groups["g"].members["a"], "assignment", b""), "by the log"),
}


def test_a_shard_that_was_loaded_again_passes() -> None:
    check_replay(shard_of(stable_group()), shard_of(stable_group()))


def test_of_a_group_between_two_generations_only_the_offsets_are_kept() -> None:
    lived = stable_group()
    lived.phase = Phase.PREPARING
    kept = Group("g", offsets={T0: offset(7)})
    check_replay(shard_of(lived), shard_of(kept))
    kept.offsets = {}
    with pytest.raises(AssertionError, match="g is not in the log"):
        check_replay(shard_of(lived), shard_of(kept))


@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_log_lost_is_seen(loss: str) -> None:
    change, message = LOSSES[loss]
    again = shard_of(deepcopy(stable_group()))
    change(again)
    with pytest.raises(AssertionError, match=message):
        check_replay(shard_of(stable_group()), again)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(-1, 9))
def test_an_acknowledged_offset_is_held_or_missed(commits: list[int], held: int) -> None:
    """``held`` -1: the group has none."""
    checker, group = OffsetChecker(), Group("g")
    for number in commits:
        checker.responded(Decision(group, 0, Outcome(events=[e.OffsetStored("t", 0, offset(number))])))
    if held >= 0:
        group.offsets = {T0: offset(held)}
    if held >= commits[-1]:
        checker.check(shard_of(group))
        return
    message = "lost its offset of t-0" if held < 0 else f"t-0 went back from {commits[-1]} to {held}"
    with pytest.raises(AssertionError, match=message):
        checker.check(shard_of(group))
