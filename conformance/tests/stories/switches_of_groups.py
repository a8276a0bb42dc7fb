"""Rules of the coordinator's and the members' machines, each switched off by a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from coterie.coordinator.classic import settle
from coterie.coordinator.outcome import Outcome
from coterie.member import events, replay
from coterie.member.machine import MemberMachine
from coterie.member.state import MemberState

Patch = pytest.MonkeyPatch


def a_sync_gets_no_response_when_a_rebalance_begins(patch: Patch) -> None:
    begin: Callable[..., Outcome] = settle._start_rebalance

    def forgetful(*arguments: object) -> Outcome:
        outcome = begin(*arguments)
        return replace(outcome, replies=outcome.replies[1:])

    patch.setattr(settle, "_start_rebalance", forgetful)


def a_deadline_is_always_past(patch: Patch) -> None:
    patch.setattr(MemberMachine, "next_deadline_ms", lambda self: 0)


def what_is_assigned_is_owned_twice(patch: Patch) -> None:
    take = replay._APPLY[events.AssignmentTaken]

    def take_twice(state: MemberState, event: events.Event) -> MemberState:
        state = take(state, event)
        return replace(state, ownership=replace(state.ownership, owned=state.ownership.owned * 2))

    patch.setitem(replay._APPLY, events.AssignmentTaken, take_twice)
