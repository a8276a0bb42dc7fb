"""The stories of share consumers with our own client; each of their claims can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coterie.share import partition, states
from coterie.share.states import RecordCause, RecordState
from coterie.testing import LocalBroker
from coterie_conformance.share_clients.programs import SHARE_PROGRAMS, prepare_ours
from coterie_conformance.share_clients.run import difference, outcome_of
from coterie_conformance.share_clients.stories import BROKER_SETTINGS, Outcome

pytestmark = pytest.mark.slow

OURS = next(program for program in SHARE_PROGRAMS if program.prepare is prepare_ours)
TYPES, COUNTS = "accept, release and reject", "released to the limit of deliveries"


def played(name: str, folder: Path) -> Outcome:
    with LocalBroker(BROKER_SETTINGS) as broker:
        command = OURS.prepare("", folder)
        outcome, wrong = outcome_of(name, OURS, broker.bootstrap_servers, command, folder)
    assert not wrong
    return outcome


def test_the_types_of_acknowledgements(tmp_path: Path) -> None:
    outcome = played(TYPES, tmp_path)
    assert outcome["again"] == [(0, offset, 2, str(offset)) for offset in (1, 4, 7)]
    assert outcome["afterwards"] == outcome["failed"] == []


def test_a_delivery_limit_and_a_renewed_lock(tmp_path: Path) -> None:
    assert played(COUNTS, tmp_path)["counts"] == [1, 2, 3, 4, 5]
    renewed = played("a lock that is renewed", tmp_path)
    assert (renewed["meanwhile"], renewed["failed"]) == ([], [])


def test_dead_letters(tmp_path: Path) -> None:
    letters = played("dead letters with copies", tmp_path)["letters"]
    rejected = [(partition, value) for partition, _, value, _ in letters]
    assert rejected == [(0, b"0"), (0, b"0"), (0, b"3"), (0, b"3"), (1, b"0"), (1, b"3")]
    spent = played("a dead letter of spent deliveries", tmp_path)
    assert [dict(headers)["__dlq.errors.delivery.count"] for _, _, _, headers in spent["letters"]] == [b"2", b"2"]


def test_another_outcome_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right, before = played(TYPES, tmp_path), states.next_state

    def next_state(cause: RecordCause, state: RecordState, **options: Any) -> RecordState:
        return before(RecordCause.RELEASED if cause is RecordCause.REJECTED else cause, state, **options)

    monkeypatch.setattr(partition, "next_state", next_state)
    with LocalBroker(BROKER_SETTINGS) as broker:
        command = OURS.prepare("", tmp_path)
        outcome, wrong = outcome_of(TYPES, OURS, broker.bootstrap_servers, command, tmp_path)
    assert not wrong
    assert difference(right, outcome).startswith("again: [(0, 1, 2, '1'), (0, 4, 2, '4'), (0, 7, 2, '7')] with Java")


def test_a_client_that_raises_or_ends_is_reported(tmp_path: Path) -> None:
    with LocalBroker(BROKER_SETTINGS) as broker:
        for command, text in (
            (["false"], "the client has ended"),
            (["sh", "-c", 'read x; echo {\\"error\\": \\"X\\"}'], "raised X"),
        ):
            _, wrong = outcome_of(TYPES, OURS, broker.bootstrap_servers, command, tmp_path)
            assert text in wrong
