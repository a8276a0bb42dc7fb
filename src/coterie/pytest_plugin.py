"""The pytest plugin: fixture ``coterie_broker``, a fresh `LocalBroker` per test, and ``coterie_cluster``, one of three brokers;
when the test fails, its journal is printed with the failure. Marker ``coterie`` gives the brokers settings:
``@pytest.mark.coterie(num_partitions=6)``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coterie.testing.local_broker import LocalBroker

_BROKER = pytest.StashKey["LocalBroker"]()


def pytest_configure(config: pytest.Config) -> None:
    text = "coterie(settings...): broker settings for the fixtures, by Kafka's names with underscores for dots"
    config.addinivalue_line("markers", text)


@pytest.fixture
def coterie_broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """A broker in this process, on a port of its own, empty and in memory."""
    yield from _started(request, 1)


@pytest.fixture
def coterie_cluster(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """Three brokers in this process that replicate, with the ids 1, 2 and 3, empty and in memory."""
    yield from _started(request, 3)


def _started(request: pytest.FixtureRequest, brokers: int) -> Iterator[LocalBroker]:
    from coterie.testing.local_broker import LocalBroker

    settings: dict[str, str] = {}
    for marker in request.node.iter_markers("coterie"):
        settings = {name.replace("_", "."): str(value) for name, value in marker.kwargs.items()} | settings
    with LocalBroker(settings, brokers=brokers) as broker:
        request.node.stash[_BROKER] = broker
        yield broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Adds the journal of the test's broker to the report of a failure."""
    report = yield
    broker = item.stash.get(_BROKER, None)
    if report.when == "call" and report.failed and broker is not None:
        story = broker.story()
        report.sections.append(("coterie's journal", "\n".join(story) or "no group did anything"))
    return report
