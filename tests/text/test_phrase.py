"""A phrase goes through JSON as data, and its English is what the data says."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from coterie.text.phrase import Phrase, read_phrase

RESTORES = Phrase("restores", {"task": "0_1", "member": "app", "seconds": 3, "records": 12_000})
PHRASES = [
    (
        Phrase("stable", {"generation": 1200, "members": 1}),
        "no rebalance is under way: generation 1200 has 1 member",
    ),
    (
        Phrase("waits_for_syncs", {"late": ("a", "b", "c", "d")}),
        "the assignment is stored; the group waits for a, b, c and 1 more to fetch it",
    ),
    (
        Phrase("and_restoring", {"phrase": Phrase("empty", {}), "restoring": (RESTORES, RESTORES)}),
        (
            "the group has no members; task 0_1 restores on app for 3 s, 12,000 records behind, "
            "task 0_1 restores on app for 3 s, 12,000 records behind"
        ),
    ),
    (
        Phrase("reconciles_more", {"late": (Phrase("empty", {}), Phrase("empty", {})), "more": 2}),
        "the group has no members; the group has no members; and 2 more",
    ),
    (
        Phrase(
            "deploy_change_crash",
            {
                "changes": (Phrase("use_static", {}), Phrase("use_setting", {"name": "x", "value": 12_000})),
                "unowned_s": "1.0",
                "today_s": "2.0",
                "rebalances": 1,
                "today": "2.5",
                "session_ms": 45_000,
            },
        ),
        (
            "Give every member a group.instance.id and set x=12000: 1.0 s unowned per partition instead of 2.0 s, and "
            "1 rebalance instead of 2.5; a crash is noticed after 45 s then."
        ),
    ),
]


@pytest.mark.parametrize(("phrase", "english"), PHRASES, ids=[phrase.name for phrase, _ in PHRASES])
def test_english_of_a_phrase(phrase: Phrase, english: str) -> None:
    assert str(phrase) == english
    assert read_phrase(json.loads(json.dumps(asdict(phrase)))) == phrase


@pytest.mark.parametrize("document", [None, "empty", {"name": "empty"}, {"name": "late", "values": {"owes": 1.5}}])
def test_what_is_no_phrase_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match="Phrase"):
        read_phrase(document)
