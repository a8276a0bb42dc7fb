"""That `coterie mcp` can change nothing: what its room, and the rooms that it is made of, call of a client, and what a broker
is asked."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import coterie.cli.mcp
from coterie.cli.mcp.tools import TOOLS, ToolSource, call_tool
from coterie.client import Admin, Consumer, Producer
from coterie.client.admin.each import Each
from coterie.testing import simulate
from tests.observer.stories import GROUP, Crew

# Of Admin and Consumer; a consumer without a group, whose positions are its own.
READING = {
    *("describe_consumer_group", "describe_consumer_groups", "describe_topics", "explain_group", "lint_group"),
    *("list_consumer_group_offsets", "list_groups", "list_offsets", "list_share_group_offsets"),
    *("partitions", "record_times"),
    *("assign", "committed", "poll", "position", "seek"),
    *("close", "lag"),
}
READING_APIS = {
    *("ApiVersions", "Metadata", "DescribeCluster", "FindCoordinator", "ListGroups", "DescribeGroups"),
    *("ConsumerGroupDescribe", "ExplainGroup", "OffsetFetch", "ListOffsets", "OffsetForLeaderEpoch", "Fetch"),
    *("DescribeConfigs", "GetTelemetrySubscriptions"),
}
ROOMS = ("coterie.cli.", "coterie.observer.")


def module_path(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reachable() -> dict[str, ast.AST]:
    """The modules of the room, and all that they import of the command line and the observer."""
    folder = Path(next(iter(coterie.cli.mcp.__path__)))
    waiting = [f"coterie.cli.mcp.{path.stem}" for path in folder.glob("*.py")]
    trees: dict[str, ast.AST] = {}
    while waiting:
        name = waiting.pop()
        path = module_path(name)
        if name in trees or path is None:
            continue
        trees[name] = ast.parse(path.read_text())
        waiting += [module for module in imported(trees[name]) if module.startswith(ROOMS)]
    return trees


def public(*kinds: type) -> set[str]:
    return {name for kind in kinds for name in dir(kind) if not name.startswith("_")}


def test_the_room_reaches_no_call_that_changes_anything() -> None:
    trees = reachable()
    assert {"coterie.cli.mcp.tools", "coterie.cli.groups.explainer", "coterie.observer.observation"} <= trees.keys()
    assert "coterie.cli.groups.groups" not in trees  # it has `groups delete`
    assert public(Admin, Each, Consumer) >= READING
    # Names that others than clients have too, here of sets, queues, tasks and click.
    changing = public(Admin, Each, Consumer, Producer) - READING
    calls = {
        (name, node.func.attr)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in changing
    }
    assert calls == set()
    assert [name for name, tree in trees.items() if "coterie.client.Producer" in imported(tree)] == []


def test_a_broker_is_asked_nothing_else() -> None:
    with simulate(seed=1) as world:
        crew = Crew(world, watched=False)
        crew.join("anna")
        crew.settle(1)
        crew.controls["anna"].leaves = True
        world.advance(10)
        world.processes["producer"].kill()
        world.advance(10)
        source = ToolSource({"bootstrap.servers": crew.broker.bootstrap_servers})
        before = crew.broker.faults.requested.copy()
        for name, tool in TOOLS.items():
            result = world.run(call_tool(source, name, {"group": GROUP} if "group" in tool.arguments else {}))
            # Without members there is nothing to predict, which it has read by then.
            assert result.is_error == (name == "predict"), result.text
        requested = crew.broker.faults.requested - before
        assert {"Fetch", "OffsetFetch", "Metadata"} <= requested.keys() <= READING_APIS
