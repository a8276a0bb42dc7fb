"""The stories of consumer groups beside a second coterie: the same responses from the same broker, and a difference where one
has another setting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coterie.testing import LocalBroker
from coterie_conformance.groups.consumer_groups import SETTINGS, ConsumerGroupReport, run_stories
from coterie_conformance.groups.questions import OTHER_TOPIC, PARTITIONS, TOPIC


@contextmanager
def broker(**changed: str) -> Iterator[LocalBroker]:
    with LocalBroker(SETTINGS | {name.replace("_", "."): value for name, value in changed.items()}) as local:
        for topic in (TOPIC, OTHER_TOPIC):
            local.create_topic(topic, PARTITIONS)
        yield local


def report_of(stories: int, **changed: str) -> ConsumerGroupReport:
    with broker() as one, broker(**changed) as other:
        return run_stories((one.host, one.port), (other.host, other.port), stories, 1)


def test_equal_brokers_give_equal_responses() -> None:
    report = report_of(10)
    assert (report.stories, report.failures) == (10, [])
    assert report.steps == 400


def test_another_setting_is_a_difference() -> None:
    report = report_of(10, group_consumer_max_size="2")
    assert report.failures
    assert "coterie: {member_id: " in report.failures[0]
    assert "error_code: 81" in report.failures[0]
