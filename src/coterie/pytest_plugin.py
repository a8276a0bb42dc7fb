"""The pytest plugin: fixtures ``coterie_broker``, a fresh `LocalBroker` per test, ``coterie_cluster``, one of three brokers,
``coterie_proxy``, which makes a `LocalProxy` before any Kafka, and ``coterie_world``, a `SimulatedWorld` in virtual time; when
the test fails, the journal is printed with the failure.

Marker ``coterie`` gives the brokers of the first two settings: ``@pytest.mark.coterie(num_partitions=6)``, and users, TLS and
ACLs: ``@pytest.mark.coterie(sasl={"alice": "secret"}, tls=True, acls=[...])``; `LocalBroker.client_settings` connects then.
Marker ``coterie_seeds`` runs a test of a world under several seeds, ``@pytest.mark.coterie_seeds(20)``; ``--coterie-seed 7``
runs all such tests under that one. ``--coterie-control URL``: ``coterie_broker`` is a broker that runs elsewhere with its
control API there, empty at the start of each test.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coterie.testing.local_broker import LocalBroker
    from coterie.testing.local_proxy import LocalProxy
    from coterie.testing.simulated import SimulatedWorld

_BROKER = pytest.StashKey["LocalBroker | SimulatedWorld"]()
OF_THE_BROKER = ("sasl", "tls", "acls")  # of the marker: arguments of `LocalBroker`, not settings
MARKERS = (
    "coterie(settings...): broker settings for the fixtures, by Kafka's names with underscores; sasl, tls, acls of LocalBroker",
    "coterie_seeds(count): run the test once for each of so many seeds of coterie_world, from 0",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--coterie-seed` and `--coterie-control`."""
    group = parser.getgroup("coterie")
    group.addoption(
        "--coterie-control",
        metavar="URL",
        help="use the broker whose `coterie broker --memory --control` printed this; its token: COTERIE_CONTROL_TOKEN",
    )
    group.addoption(
        "--coterie-seed", type=int, metavar="N", help="the seed of coterie_world, instead of those of coterie_seeds"
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each seed."""
    if "coterie_world" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("coterie_seeds")
    count = 1 if marker is None else int(marker.args[0] if marker.args else marker.kwargs["count"])
    given = metafunc.config.getoption("coterie_seed")
    seeds = range(count) if given is None else (given,)
    metafunc.parametrize("coterie_world", seeds, indirect=True, ids=[f"seed {seed}" for seed in seeds])


@pytest.fixture
def coterie_broker(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """A broker in this process, on a port of its own, empty and in memory; with --coterie-control the one there, emptied."""
    url = request.config.getoption("coterie_control")
    if url is None:
        yield from _started(request, 1)
    else:
        yield from _emptied(request, url)


@pytest.fixture
def coterie_cluster(request: pytest.FixtureRequest) -> Iterator[LocalBroker]:
    """Three brokers in this process that replicate, with the ids 1, 2 and 3, empty and in memory."""
    yield from _started(request, 3)


@pytest.fixture
def coterie_proxy() -> Iterator[Callable[..., LocalProxy]]:
    """A function of a cluster's bootstrap.servers, and of client settings for TLS and SASL, to a proxy before it."""
    from coterie.testing.local_proxy import LocalProxy

    with contextlib.ExitStack() as proxies:

        def before(upstream: str, settings: Mapping[str, object] | None = None) -> LocalProxy:
            return proxies.enter_context(LocalProxy(upstream, settings))

        yield before


@pytest.fixture
def coterie_world(request: pytest.FixtureRequest) -> Iterator[SimulatedWorld]:
    """A world in virtual time, without brokers, of the test's seed."""
    from coterie.testing.simulated import simulate

    with simulate(request.param) as world:
        request.node.stash[_BROKER] = world
        yield world


def _emptied(request: pytest.FixtureRequest, url: str) -> Iterator[LocalBroker]:
    from coterie.testing.control.remote_broker import RemoteBroker

    if request.node.get_closest_marker("coterie") is not None:
        pytest.fail("the marker coterie gives settings, which a broker of --coterie-control already has", pytrace=False)
    broker = RemoteBroker(url, os.environ.get("COTERIE_CONTROL_TOKEN")).start()
    request.node.stash[_BROKER] = broker
    yield broker


def _started(request: pytest.FixtureRequest, brokers: int) -> Iterator[LocalBroker]:
    from coterie.testing.local_broker import LocalBroker

    given: dict[str, Any] = {}
    for marker in request.node.iter_markers("coterie"):
        given = marker.kwargs | given
    arguments = {name: given.pop(name) for name in OF_THE_BROKER if name in given}
    settings = {name.replace("_", "."): str(value) for name, value in given.items()}
    with LocalBroker(settings, brokers=brokers, **arguments) as broker:
        request.node.stash[_BROKER] = broker
        yield broker


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    """Adds the journal of the test's brokers to the report of a failure; of a world its seed, too."""
    report = yield
    broker = item.stash.get(_BROKER, None)
    if report.when == "call" and report.failed and broker is not None:
        story = broker.story()
        report.sections.append(("coterie's journal", "\n".join(story) or "no group did anything"))
    return report
