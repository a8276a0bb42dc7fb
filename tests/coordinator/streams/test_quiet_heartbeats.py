"""The short way of a streams heartbeat that changes nothing has the outcome of the long one: every field of the request and
every setting, each with another value, in groups that are at rest and in groups that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import pytest

from coterie.coordinator import dispatch
from coterie.coordinator.outcome import Context, CoordinatorConfig, Outcome
from coterie.coordinator.streams import heartbeat
from coterie.coordinator.streams.state import StreamsGroup
from coterie.wire.errors import Refusal
from coterie.wire.messages.streams.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TaskOffset,
)
from coterie_conformance.share_stories.every_kind import run_kinds_seed
from tests.coordinator.streams.test_heartbeat import AT_ONCE, IN, LOG, READY, TOPOLOGY, Group

OTHER_VALUES: dict[str, list[Any]] = {
    "group_id": [],  # by it the group was looked up
    "member_id": ["a", "b", "unknown", ""],
    "member_epoch": [-3, -2, -1, 0, 1, 2, 3, 4, 5],
    "endpoint_information_epoch": [-1, 0, 1, 2],
    "instance_id": ["i", ""],
    "rack_id": ["r", ""],
    "rebalance_timeout_ms": [0, 5_000],
    "topology": [TOPOLOGY, replace(TOPOLOGY, epoch=1)],
    "active_tasks": [[], [TaskIds("0", [0])]],
    "standby_tasks": [[], [TaskIds("0", [0])]],
    "warmup_tasks": [[], [TaskIds("0", [0])]],
    "process_id": ["a", "other"],
    "user_endpoint": [Endpoint("h", 1)],
    "client_tags": [[], [KeyValue("zone", "z")]],
    "task_offsets": [[], [TaskOffset("0", 0, 7)], [TaskOffset("0", 0, 7)] * 2],
    "task_end_offsets": [[], [TaskOffset("0", 0, 9)]],
    "shutdown_application": [True],
}
SETTINGS: dict[str, Any] = {
    "group_streams_num_standby_replicas": 1,
    "group_streams_rack_aware_assignment_tags": ("zone",),
    "group_streams_heartbeat_interval_ms": 1,
    "group_streams_session_timeout_ms": 1,
    "group_streams_initial_rebalance_delay_ms": 9,
    "group_streams_assignment_interval_ms": 9_999,
    "group_streams_max_size": 1,
}
Question = tuple[StreamsGroup, StreamsGroupHeartbeatRequest, Context, CoordinatorConfig]


def _settled(*members: str, **joins: Any) -> Group:
    group = Group()
    for member in members:
        group.join(member, **joins)
    for _ in range(2):
        for member in members:
            current = group.state.members[member].current
            group.beat(member, current.member_epoch)
            owned = sorted(partition for _, partition in group.state.members[member].current.assigned.active)
            group.beat(member, current.member_epoch, [TaskIds("0", owned)] if owned else [])
    return group


def _groups() -> Iterator[Group]:
    yield _settled("a")
    yield _settled("a", "b")
    yield _settled("a", instance_id="i")
    yield _settled("a", user_endpoint=Endpoint("h", 1))
    revoking = Group()
    revoking.join("a")
    revoking.join("b")
    yield revoking
    stopping = _settled("a")
    stopping.beat("a", stopping.state.group_epoch, shutdown_application=True)
    yield stopping
    without_topics = Group(topics=replace(READY, topics={"in": IN}))
    without_topics.join("a")
    yield without_topics
    delayed = Group(replace(AT_ONCE, group_streams_initial_rebalance_delay_ms=3_000))
    delayed.join("a")
    yield delayed
    unsettled = Group(replace(AT_ONCE, group_streams_assignment_interval_ms=60_000))
    unsettled.join("a")
    unsettled.join("b")
    yield unsettled


def _questions() -> Iterator[Question]:
    larger = replace(READY, topics={"in": replace(IN, partitions=6), "log": LOG}, version=2)
    renamed = replace(READY, version=2)
    for group in _groups():
        for member in group.state.members.values():
            quiet = StreamsGroupHeartbeatRequest(
                "g", member.member_id, member.current.member_epoch, group.state.endpoint_epoch
            )
            ctx = Context(group.now_ms, "token", "fresh", 1, "client", "/host", group.topics)
            yield group.state, quiet, ctx, group.config
            for name, values in OTHER_VALUES.items():
                for value in values:
                    yield group.state, replace(quiet, **{name: value}), ctx, group.config
                    no_tasks = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []} | {name: value}
                    yield group.state, replace(quiet, **no_tasks), ctx, group.config
            for name, setting in SETTINGS.items():
                for version in (0, 1):
                    config = replace(group.config, **{name: setting})
                    yield group.state, quiet, replace(ctx, api_version=version), config
            for other in ({"client_id": "x"}, {"client_host": "/x"}, {"topics": larger}, {"topics": renamed}):
                yield group.state, quiet, replace(ctx, **other), group.config


def _outcome(question: Question) -> Outcome | tuple[Any, ...]:
    group, request, ctx, config = question
    try:
        return heartbeat.decide_streams_heartbeat(group, True, request, ctx, config)
    except Refusal as refusal:
        return refusal.code, refusal.message


def _differences(monkeypatch: pytest.MonkeyPatch, is_short: Callable[..., bool]) -> tuple[int, list[Question]]:
    """How many of the questions are decided the short way, and which of them otherwise than the long way."""
    short = [question for question in _questions() if is_short(*question)]
    with monkeypatch.context() as patched:
        patched.setattr(heartbeat, "_changes_nothing", is_short)
        outcomes = [_outcome(question) for question in short]
        patched.setattr(heartbeat, "_changes_nothing", lambda *_: False)
        return len(short), [q for q, outcome in zip(short, outcomes, strict=True) if outcome != _outcome(q)]


def test_every_field_of_the_request_and_every_setting_has_another_value() -> None:
    assert OTHER_VALUES.keys() == {field.name for field in fields(StreamsGroupHeartbeatRequest)}
    streams = {field.name for field in fields(CoordinatorConfig) if field.name.startswith("group_streams_")}
    only_in_the_response = {"group_streams_task_offset_interval_ms", "group_streams_acceptable_recovery_lag"}
    assert SETTINGS.keys() == streams - only_in_the_response - {"group_streams_assignors"}  # of new targets alone


def test_the_short_way_is_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    short, differences = _differences(monkeypatch, heartbeat._changes_nothing)
    assert short >= 40
    assert differences == []


def test_the_short_way_is_the_long_way_in_stories(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers and members of every kind of group, with faults."""
    agree = list[bool]()
    is_short, decide = heartbeat._changes_nothing, heartbeat.decide_streams_heartbeat

    def both(group: StreamsGroup, exists: bool, *rest: Any) -> Outcome:
        outcome = decide(group, exists, *rest)
        if is_short(group, *rest):
            with monkeypatch.context() as without:
                without.setattr(heartbeat, "_changes_nothing", lambda *_: False)
                agree.append(outcome == decide(group, exists, *rest))
        return outcome

    monkeypatch.setattr(dispatch, "decide_streams_heartbeat", both)
    for seed in range(2):
        run_kinds_seed(seed, 0.2, brokers=1)
    assert len(agree) > 20
    assert all(agree)


def _overlooking(group: dict[str, Any] | None = None, request: dict[str, Any] | None = None) -> Callable[..., bool]:
    """The short way's condition without what these fields say."""
    is_short = heartbeat._changes_nothing

    def condition(
        state: StreamsGroup, asked: StreamsGroupHeartbeatRequest, ctx: Context, config: CoordinatorConfig
    ) -> bool:
        seen = {name: value(state, ctx) for name, value in (group or {}).items()}
        return is_short(replace(state, **seen), replace(asked, **(request or {})), ctx, config)

    return condition


@pytest.mark.parametrize(
    "overlooking",
    [
        pytest.param({"request": {"task_offsets": None}}, id="offsets"),
        pytest.param({"request": {"shutdown_application": False}}, id="shutdown"),
        pytest.param({"request": {"rack_id": None}}, id="rack"),
        pytest.param({"request": {"client_tags": None}}, id="tags"),
        pytest.param({"request": {"active_tasks": None, "standby_tasks": None, "warmup_tasks": None}}, id="tasks"),
        pytest.param({"group": {"topics_version": lambda state, ctx: ctx.topics.version}}, id="topics"),
        pytest.param({"group": {"group_epoch": lambda state, ctx: 0}}, id="group epoch"),
        pytest.param({"group": {"shutdown_member_id": lambda state, ctx: None}}, id="a shutdown before"),
    ],
)
def test_a_short_way_that_overlooks_a_change_is_noticed(
    overlooking: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, differences = _differences(monkeypatch, _overlooking(**overlooking))
    assert differences
