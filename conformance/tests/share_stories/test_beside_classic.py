"""A share group beside the classic way of doing the same work, and a member's crash."""

from __future__ import annotations

import pytest

from coterie_conformance.share_stories import beside_classic
from coterie_conformance.share_stories.beside_classic import run_once

pytestmark = pytest.mark.slow


def test_a_slow_record_holds_up_its_partition_only_where_it_has_an_owner() -> None:
    by_ownership, as_a_queue = (run_once("one record is slow", protocol) for protocol in ("consumer", "share"))
    assert by_ownership.longest_s > beside_classic.SLOW_S / 2
    assert by_ownership.late > as_a_queue.late


def test_a_record_that_is_never_done_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(beside_classic.CHANGES, "all are killed", _all_are_killed)
    with pytest.raises(AssertionError, match=r"all are killed, share: .* records were never done"):
        run_once("all are killed", "share")


def _all_are_killed(crew: beside_classic.Crew) -> None:
    for number in range(beside_classic.MEMBERS):
        crew.kill(number)
