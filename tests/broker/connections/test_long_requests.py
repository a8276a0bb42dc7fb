"""One request with many items holds nobody up: each array of each API, by its declaration, with 1,000 and 8,000 items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.handlers import HANDLERS
from coterie.broker.requests.calls import Call
from coterie.broker.requests.pending import Pending
from coterie.broker.requests.turns import Work
from coterie.broker.settings.altered_settings import ResourceType
from coterie.wire.declaration import Message
from coterie.wire.messages.groups.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.wire.messages.groups.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.settings.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.broker.connections.array_requests import ArrayOfApi, every_array
from tests.broker.connections.turn_meter import MeteredBroker, metered_broker

LONGEST_S = 0.100  # of the processor, for which a bystander waits
FEW, MANY = 1_000, 8_000
LARGE_ITEMS = 4_000  # of these, each of which has messages or arrays of its own: all are decoded in one step
WITH_LARGE_ITEMS = (
    "StreamsGroupHeartbeat-topology.subtopologies",
    "StreamsGroupTopologyDescriptionUpdate-topology_description.global_stores",
)
FEW_EXISTING, MANY_EXISTING = 250, 2_000  # of topics or partitions that exist: each has files
ENOUGH_S = 0.050  # less is not compared
OF_EXISTING = [of for of in every_array() if of.names_existing]
ALL = [of for of in every_array() if not of.names_existing]
CHANGES_TOPICS = ("DeleteTopics", "CreatePartitions")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeteredBroker]:
    with metered_broker(tmp_path_factory.mktemp("shared"), MANY_EXISTING, MANY_EXISTING) as broker:
        yield broker


@pytest.mark.slow
@pytest.mark.parametrize("of", ALL, ids=str)
def test_many_items_hold_nobody_up(of: ArrayOfApi, tmp_path: Path) -> None:
    with metered_broker(tmp_path) as broker:
        _check(broker, of, FEW, LARGE_ITEMS if str(of).startswith(WITH_LARGE_ITEMS) else MANY)


@pytest.mark.slow
@pytest.mark.parametrize("of", [of for of in OF_EXISTING if of.api.name not in CHANGES_TOPICS], ids=str)
def test_many_items_that_exist_hold_nobody_up(of: ArrayOfApi, shared: MeteredBroker) -> None:
    _check(shared, of, FEW_EXISTING, MANY_EXISTING)


@pytest.mark.slow
@pytest.mark.parametrize("of", [of for of in OF_EXISTING if of.api.name in CHANGES_TOPICS], ids=str)
def test_many_topics_are_changed_and_hold_nobody_up(of: ArrayOfApi, tmp_path: Path) -> None:
    with metered_broker(tmp_path, 0, MANY_EXISTING) as broker:
        _check(broker, of, FEW_EXISTING, MANY_EXISTING)


def _check(broker: MeteredBroker, of: ArrayOfApi, few: int, many: int, tries: int = 6) -> None:
    """The cost must grow with the items, and not with their square, which would be 64 times."""
    broker.ask(of.request(1), of.version)  # imports, codecs
    broker.ask(of.request(few), of.version)
    few_s = broker.loop.total_s
    for _ in range(tries):  # what else the machine does can only add to the processor's time
        broker.ask(of.request(many), of.version)
        longest_s, many_s = broker.loop.longest_s, broker.loop.total_s
        if longest_s < LONGEST_S:
            break
    assert longest_s < LONGEST_S, f"a bystander waits for {longest_s * 1000:.0f} ms"
    assert many_s < max(ENOUGH_S, 3 * (many / few) * few_s), (
        f"{few} items take {few_s:.3f} s, {many} take {many_s:.3f} s"
    )


def _one_write_each(broker: MeteredBroker, request: IncrementalAlterConfigsRequest, call: Call) -> Message:
    """As AlterConfigs was: the whole file for each item."""
    for resource in request.resources:
        broker.kept_configs.replace({(ResourceType.GROUP, resource.resource_name): {"a": "b"}})
    return IncrementalAlterConfigsResponse()


def _compared_with_each(
    broker: MeteredBroker, request: IncrementalAlterConfigsRequest, call: Call
) -> Message | Pending:
    """In turns, and still with the square of the items."""

    def work() -> Work:
        names = [resource.resource_name for resource in request.resources]
        for name in names:
            assert names.count(name) == 1
            yield
        return IncrementalAlterConfigsResponse()

    return broker.turns.run(work())


@pytest.mark.slow  # as the tests whose check this is
@pytest.mark.parametrize(
    ("handler", "counts", "complaint"),
    [(_one_write_each, (100, 800), "bystander"), (_compared_with_each, (FEW, MANY), "items take")],
)
def test_a_handler_of_quadratic_cost_is_seen(
    handler: Any, counts: tuple[int, int], complaint: str, tmp_path: Path
) -> None:
    of = next(of for of in ALL if of.api.name == "IncrementalAlterConfigs")
    with metered_broker(tmp_path) as broker:
        broker.handlers = HANDLERS | {of.api.key: handler}
        with pytest.raises(AssertionError, match=complaint):
            _check(broker, of, *counts, tries=1)


@pytest.mark.parametrize(
    ("request_of", "version"),
    [(DescribeGroupsRequest, 6), (ConsumerGroupDescribeRequest, 1)],
)
def test_a_name_that_fills_a_string_is_answered(
    request_of: Callable[[list[str]], Message], version: int, tmp_path: Path
) -> None:
    """With the words around it the text of the error was longer than a string may be: a traceback."""
    name = "g" * 32_767
    with metered_broker(tmp_path) as broker:
        assert name.encode() in broker.ask(request_of([name]), version)
