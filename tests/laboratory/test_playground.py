"""The laboratory to play with: the same setting, seed and actions give the same trace, however time is passed and in whatever
process; each event has its rule, and each rule its sentence and its scenario."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coterie.configuration.setting import SettingError
from coterie.laboratory.playground.playground import Playground, UnfitAction, shown
from coterie.laboratory.playground.rules import RULES
from coterie.laboratory.playground.session import PlaygroundSession, description, texts
from coterie.laboratory.playground.settings import PROTOCOLS, PlaygroundSetting, protocol_defaults, read_setting
from coterie.laboratory.study.workload import Event

SPEC = Path(__file__).parents[1] / "spec"
ACTIONS = (
    Event(20_000, "join", "m4"),
    Event(40_000, "pause", "m2", 60_000),
    Event(60_000, "leave", "m3"),
    Event(70_000, "kill", "m1"),
)
END_MS = 110_000


def played(protocol: str, *, checks: bool = False, seed: int = 1, lost_percent: int = 0) -> Playground:
    setting = read_setting({"protocol": protocol, "seed": seed, "lost.requests.percent": lost_percent})
    return Playground(setting, ACTIONS, checks=checks)


@pytest.mark.parametrize("protocol", PROTOCOLS)
class TestEachProtocol:
    def test_the_trace_depends_on_nothing_but_setting_and_actions(self, protocol: str) -> None:
        at_once = played(protocol, checks=True)
        at_once.run_until(END_MS)
        expected = at_once.recording.trace_hash()

        in_pieces = Playground(at_once.setting)
        for action in ACTIONS:
            for _ in range(20):
                in_pieces.step()
            in_pieces.run_until(action.time_ms)
            in_pieces.act(action.kind, action.member, action.ms)
        in_pieces.run_until(END_MS)
        assert in_pieces.recording.trace_hash() == expected

        in_pieces.run_until(30_000)
        assert in_pieces.now_ms == 30_000
        assert in_pieces.recording.trace_hash() != expected
        in_pieces.run_until(END_MS)
        assert in_pieces.recording.trace_hash() == expected, "what was done comes again after a way back"

    def test_each_event_has_a_rule_and_another_seed_another_trace(self, protocol: str) -> None:
        playground, other = played(protocol), played(protocol, seed=2)
        for each in (playground, other):
            each.run_until(END_MS)
        assert playground.recording.trace_hash() != other.recording.trace_hash()
        events = playground.recording.events
        assert {event.rule for event in events if event.kind != "act"} <= RULES.keys()
        assert {event.kind for event in events} >= {"act", "request", "response", "takes", "releases"}
        assert all(event.arrives_ms is None or event.arrives_ms >= event.time_ms for event in events)
        assert [e.time_ms for e in events if e.kind != "response"] == sorted(
            e.time_ms for e in events if e.kind != "response"
        )

    def test_the_timeline_has_the_owners_at_the_end(self, protocol: str) -> None:
        playground = played(protocol)
        playground.run_until(40_000)
        document = playground.timeline()
        owned = {
            (*document["lanes"][lane], document["owners"][owner])
            for lane, owner, _, until in document["owned"]
            if until is None
        }
        members = {(tp.rpartition("-"), m["name"]) for m in playground.members() for tp in m["owned"]}
        assert owned == {(topic, int(number), name) for (topic, _, number), name in members}
        assert len(owned) == 12
        assert document["rebalances"]
        assert document["end_ms"] - document["begin_ms"] == 40_000
        assert any("m4 joined" in rebalance["why"] for rebalance in document["rebalances"])
        json.dumps(document)


def test_a_lost_request_has_no_arrival() -> None:
    playground = played("eager", lost_percent=30)
    playground.run_until(60_000)
    sent = [event for event in playground.recording.events if event.kind == "request"]
    assert 0 < sum(event.arrives_ms is None for event in sent) < len(sent)


def test_a_member_that_is_cut_off_sends_in_vain() -> None:
    playground = played("eager")
    playground.run_until(30_000)
    playground.act("cut", "m1", 20_000)
    playground.run_until(31_000)
    assert next(m for m in playground.members() if m["name"] == "m1")["held"] == "pause"
    playground.run_until(60_000)
    assert any(e.member == "m1" and e.kind == "request" and e.arrives_ms is None for e in playground.recording.events)


def test_a_topic_grows_where_the_protocol_knows_it() -> None:
    playground = Playground(read_setting({"protocol": "consumer", "partitions": 4}))
    playground.run_until(20_000)
    playground.act("grow", partitions=8)
    playground.run_until(60_000)
    assert sum(len(member["owned"]) for member in playground.members()) == 8
    with pytest.raises(UnfitAction, match="no topic that grows"):
        Playground(read_setting({"protocol": "rocketmq"})).act("grow", partitions=20)


@pytest.mark.parametrize(
    ("kind", "member", "sentence"),
    [("burn", "m1", "no action burn"), ("kill", "", "name of a member"), ("pause", "m1", "needs ms")],
)
def test_an_action_that_does_not_fit_is_refused(kind: str, member: str, sentence: str) -> None:
    with pytest.raises(UnfitAction, match=sentence):
        Playground(PlaygroundSetting()).act(kind, member)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"protocol": "gossip"}, "protocol must be one of"),
        ({"members": 51}, "members must be from 0 to 50"),
        ({"session.timeout.ms": "2000"}, "heartbeat.interval.ms must be lower"),
        ({"sesion.timeout.ms": 1}, "did you mean session.timeout.ms"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        read_setting(values)


def test_every_time_out_can_be_chosen_and_is_the_protocols_otherwise() -> None:
    assert protocol_defaults()["zookeeper"]["session.timeout.ms"] == 6_000
    study = read_setting({"protocol": "consumer", "session.timeout.ms": 10_000}).study
    assert (study.session_timeout_ms, study.heartbeat_interval_ms) == (10_000, 5_000)


def test_member_ids_are_shown_as_names() -> None:
    assert shown("m1-0123456789abcdef joined; g_m2 10.0.0.1@m3#2") == "m1 joined; m2 m3"
    assert shown("a-b-012345") == "a-b"


def test_each_rule_has_a_scenario_and_a_sentence_in_both_languages() -> None:
    for name, rule in RULES.items():
        assert re.search(rf"^== (.* )?{rule.scenario}( |$)", (SPEC / rule.file).read_text("utf-8"), re.M), name
        assert texts()[f"rule.{name}"].keys() == {"en", "zh"}
    assert {name for name in texts() if name.startswith("rule.")} == {f"rule.{name}" for name in RULES}


class TestSession:
    def view(self, text: str) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(text)
        assert "error" not in view
        return view

    def test_a_page_starts_goes_acts_and_goes_back(self) -> None:
        session = PlaygroundSession()
        first = self.view(session.start(json.dumps({"settings": {"protocol": "cooperative", "members": 2}})))
        assert (first["now_ms"], first["count"], first["is_new"]) == (0, 0, True)
        view = self.view(session.go(30_000))
        assert view["explanation"]["state"] == "Stable"
        assert view["costs"]["rebalances"] > 0
        after = self.view(session.act(json.dumps({"kind": "kill", "member": "m2"})))
        assert [event["name"] for event in after["events"] if event["kind"] == "act"] == ["kill"]
        assert not after["is_new"]
        stepped = self.view(session.step())
        assert stepped["count"] > after["count"]
        assert stepped["now_ms"] > 30_000
        back = self.view(session.go(10_000))
        assert back["is_new"]
        assert back["count"] < view["count"]
        assert len(session.trace_hash()) == 64

    def test_errors_are_sentences(self) -> None:
        session = PlaygroundSession()
        for response in (
            session.start(json.dumps({"settings": {"members": "many"}})),
            session.act(json.dumps({"kind": "burn"})),
        ):
            assert json.loads(response)["error"]

    def test_the_description_is_json(self) -> None:
        described = json.loads(description())
        assert set(described["protocols"]) == set(PROTOCOLS)
        assert len(described["lessons"]) == 12
