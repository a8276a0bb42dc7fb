"""A journal line's JSON is that of a generic encoder, and reads back as the line."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.console import history_page
from coterie.console.page import markup_text
from coterie.coordinator.journal.line import CAUSE_WORDS, FIELDS, JournalLine, cause_json
from coterie.observer.logs import server_log

OF_COORDINATORS = ("coordinator", "coordinator_from", "coordinator_epoch", "loaded_groups", "load_ms")
texts, counts = st.text(max_size=20), st.integers(-1, 2**63)
causes = st.lists(st.dictionaries(st.sampled_from(["member_id", "reason"]), texts).map(lambda c: {"kind": "left"} | c))
moves = st.fixed_dictionaries({"topic": texts, "partition": counts, "from": st.none() | texts, "to": st.none() | texts})
owners = st.dictionaries(texts, st.dictionaries(texts, st.lists(counts, max_size=3), max_size=2), max_size=2)
OF_OWNERS = ("moved_count", "unowned_count", "unowned_ms", "undetected_ms")
optional = {
    **{name: st.none() | texts for name in ("leader", "protocol", "member")},
    **{
        name: st.none() | counts
        for name in ("members", "member_epoch", "join_ms", "sync_ms", *OF_OWNERS, *OF_COORDINATORS)
    },
    "causes": causes,
    "moved": st.lists(moves, max_size=3),
    "owners": st.none() | owners,
}
REQUIRED = ("time_ms", "group", "generation", "event", "state_from", "state_to")


def _of_one_kind(line: JournalLine) -> JournalLine:
    """Only a line that names a coordinator has the other fields of one."""
    without: dict[str, Any] = dict.fromkeys(OF_COORDINATORS)
    return line if line.coordinator is not None else replace(line, **without)


lines = st.builds(JournalLine, counts, texts, counts, texts, texts, texts, **optional).map(_of_one_kind)


def test_every_field_is_among_those_that_are_tried() -> None:
    assert {*REQUIRED, *optional} == set(FIELDS)


@given(lines)
def test_a_line_is_written_as_a_generic_encoder_would(line: JournalLine) -> None:
    set_fields: dict[str, Any] = {}
    for name in FIELDS:
        value = getattr(line, name)
        if value is not None and value != []:
            set_fields[name] = value
    assert line.to_json() == json.dumps(set_fields, separators=(",", ":"))
    assert JournalLine.from_json(line.to_json()) == line


@given(lines, st.sampled_from(["member_left", "tombstone"]), texts, texts, st.none() | texts, st.none() | texts)
def test_causes_written_before_are_those_of_the_line(
    line: JournalLine, kind: str, member_id: str, client_id: str, instance_id: str | None, reason: str | None
) -> None:
    cause = {"member_id": member_id, "client_id": client_id, "group_instance_id": instance_id, "reason": reason}
    cause_fields = {"kind": kind} | {name: text for name, text in cause.items() if text}
    written = cause_json(kind, member_id, client_id, instance_id, reason)
    assert written == json.dumps(cause_fields, separators=(",", ":"))
    assert line.to_json([written] * 2) == replace(line, causes=[cause_fields] * 2).to_json()
    assert line.to_json([]) == replace(line, causes=[]).to_json()


def test_every_field_has_a_meaning() -> None:
    assert [f.name for f in fields(JournalLine)] == list(FIELDS)


def _kinds_in_the_code() -> set[str]:
    """The first argument of each call by which a cause is made, and the causes that a broker's log is read for."""
    root = Path(__file__).parents[3] / "src" / "coterie"
    made = re.compile(r"\b(?:Cause|_cause|cause_of|cause_json|fence)\(\s*(?:[^()\"]*, )?\"([a-z_]+)\"")
    kinds = {
        kind
        for room in ("coordinator", "broker")
        for p in (root / room).rglob("*.py")
        for kind in made.findall(p.read_text())
    }
    return kinds | {kind for _, kind in server_log._CAUSES}


def test_each_cause_has_its_words_and_no_words_are_without_a_cause() -> None:
    kinds = _kinds_in_the_code()
    assert len(kinds) > 12
    assert kinds <= CAUSE_WORDS.keys(), kinds - CAUSE_WORDS.keys()
    verbs = {JournalLine(0, "g", 1, "stable", "", "", causes=[{"kind": kind}]).why() for kind in CAUSE_WORDS}
    titles = {words.title for words in CAUSE_WORDS.values()}
    assert not (verbs | titles) & CAUSE_WORDS.keys(), "a kind is shown as it is named in the code"
    assert len(titles) == len(CAUSE_WORDS)
    assert all(words.verb and words.title for words in CAUSE_WORDS.values())


def test_a_page_counts_every_cause_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = dict.fromkeys(("time_ms", "generation", "members", "join_ms", "sync_ms", "moved", "unowned_ms"), 1)
    rows = [{**numbers, "cause": kind, "why": "", "source": "journal"} for kind in CAUSE_WORDS]
    monkeypatch.setattr(history_page, "rows_of", lambda folder, group: rows if folder.name == "rebalances" else [])
    [causes] = [s.body for s in history_page.sections(Path("x"), "g") if s.heading == "Causes of rebalances"]
    assert [words.title for words in CAUSE_WORDS.values() if markup_text(words.title) not in causes] == []


def test_a_table_stands_once_in_the_code() -> None:
    """Each was written twice."""
    root = Path(__file__).parents[3] / "src" / "coterie"
    for name in ("DEPARTURES", "ASSIGNOR_OF_PROTOCOL"):
        files = [p for p in root.rglob("*.py") if re.search(rf"^_?{name} = ", p.read_text(), re.M)]
        assert len(files) == 1, files
