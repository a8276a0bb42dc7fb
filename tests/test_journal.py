"""A journal line's JSON is that of a generic encoder, and reads back as the line."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coterie.journal import FIELDS, JournalLine, cause_json

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
