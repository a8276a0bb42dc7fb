"""The stories of other clients' groups, with confluent-kafka of this environment; each of their claims can fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from coterie.client import GroupType
from coterie.testing import LocalBroker
from coterie_conformance.members import stories
from coterie_conformance.members.programs import HERE
from coterie_conformance.members.stories import GroupOnTrial, make_topic, on_trial, one_is_killed, upgraded_and_back

COMMAND = [sys.executable, str(HERE / "confluent_member.py")]


@contextmanager
def trial(folder: Path, command: list[str] = COMMAND, **changed: str) -> Iterator[GroupOnTrial]:
    settings = stories.SETTINGS | {name.replace("_", "."): value for name, value in changed.items()}
    with LocalBroker(settings) as broker:
        make_topic(broker.bootstrap_servers)
        with on_trial(command, broker.bootstrap_servers, "g", folder) as group:
            yield group


SESSION: dict[str, Any] = {"group_consumer_min_session_timeout_ms": "1000", "group_consumer_session_timeout_ms": "2000"}


def test_one_of_three_is_killed(tmp_path: Path) -> None:
    with trial(tmp_path, **SESSION) as group:
        figures = one_is_killed(group)
    assert figures.change_s > 1.0
    assert figures.idle_s > 1.0
    assert figures.records > 0


def test_a_group_goes_to_the_consumer_protocol_and_back(tmp_path: Path) -> None:
    with trial(tmp_path) as group:
        figures = upgraded_and_back(group)
    assert figures.idle_s < stories.IDLE_S


def test_a_group_that_may_not_change_its_protocol_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = GroupOnTrial.kind

    def from_then_on_impatient(group: GroupOnTrial) -> GroupType:
        monkeypatch.setattr(stories, "PATIENCE_S", 3.0)
        return kind(group)

    monkeypatch.setattr(GroupOnTrial, "kind", from_then_on_impatient)
    with trial(tmp_path, group_consumer_migration_policy="disabled") as group, pytest.raises(AssertionError) as wrong:
        upgraded_and_back(group)
    assert "not within 3 s: 3 members share 6 partitions" in str(wrong.value)
    assert "consumer []" in str(wrong.value)


def test_a_standstill_and_a_lost_record_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with trial(tmp_path) as group:
        group.start("consumer")
        group.until_shared()
        group.feed()
        with pytest.raises(AssertionError, match="a partition was not read for"):
            group.finished(0, 0.0)
        group.members[0].reads.pop()
        monkeypatch.setattr(stories, "PATIENCE_S", 0.2)
        with pytest.raises(AssertionError, match="every record is read"):
            group.finished(0, stories.IDLE_S)


def test_a_member_that_ends_by_itself_is_reported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no such protocol')"]
    with trial(tmp_path, command) as group, pytest.raises(AssertionError, match="ended with 1: no such protocol"):
        one_is_killed(group)
