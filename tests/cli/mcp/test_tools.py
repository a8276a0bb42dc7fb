"""`coterie mcp` by the protocol, its errors, and the size of its responses. What the tools of `coterie mcp` return of
planted incidents: the right response, in few characters."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from coterie.cli.mcp.server import make_server
from coterie.cli.mcp.tools import MOST_CHARACTERS, TOOLS, ToolSource, call_tool, text_of
from coterie.coordinator.journal.line import JournalLine
from coterie.observer.journal_sinks import FolderJournal
from coterie.testing import ErrorCode, LocalBroker, simulate
from tests.cli.mcp.incidents import AGENT, INCIDENTS, Incident
from tests.observer.stories import Crew

AWAY = ToolSource({"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "300"})
NAMES = [f"{incident.tell.__name__}-{incident.tool}" for incident in INCIDENTS]


def test_the_tools_are_listed_as_read_only() -> None:
    async def listed() -> list[Any]:
        async with Client(make_server(AWAY)) as client:
            return list((await client.list_tools()).tools)

    tools = asyncio.run(listed())
    assert [tool.name for tool in tools] == ["groups", "why", "history", "lint", "predict", "lag"] == list(TOOLS)
    assert all(tool.annotations.read_only_hint and not tool.annotations.destructive_hint for tool in tools)
    assert all(tool.input_schema["additionalProperties"] is False for tool in tools)
    assert sum(len(tool.model_dump_json()) for tool in tools) < 8_000  # it lies in the agent's context all the time


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("nothing", {}, "there is no tool 'nothing'; there are groups, why, history, lint, predict, lag"),
        ("lag", {}, "'group' is a required property"),
        ("lag", {"group": 3}, "group: 3 is not of type 'string'"),
        ("history", {"group": "crew", "most": 1000}, "most: 1000 is greater than the maximum of 100"),
        ("groups", {"delete": True}, "Additional properties are not allowed ('delete' was unexpected)"),
        ("lint", {"group": "crew", "change": "x"}, "change: 'x' is not one of "),
        ("lag", {"group": "crew"}, "NETWORK_EXCEPTION: no broker answers at 127.0.0.1:1"),
        ("groups", {}, "NETWORK_EXCEPTION: no broker answers at 127.0.0.1:1"),
    ],
)
def test_an_error_is_one_sentence(tool: str, arguments: dict[str, Any], sentence: str) -> None:
    result = asyncio.run(call_tool(AWAY, tool, arguments))
    assert result.is_error
    assert result.text.startswith(sentence)
    assert "\n" not in result.text


def test_a_group_that_does_not_exist_is_a_sentence_with_the_remedy() -> None:
    with simulate(seed=1) as world:
        source = ToolSource({"bootstrap.servers": world.broker().bootstrap_servers})
        for tool in ("why", "lint", "predict", "lag"):
            result = world.run(call_tool(source, tool, {"group": "crww"}))
            assert result == ("there is no group 'crww'; the tool groups lists those of the cluster", True)
        assert json.loads(world.run(call_tool(source, "groups", {})).text) == {"groups": []}


def test_a_long_document_is_cut_and_says_so() -> None:
    document = {"group": "x" * 30_000, "rows": [{"id": "y" * 1_000, "none": None}] * 5_000, "empty": [], "gone": None}
    read = json.loads(text := text_of(document, 100))
    assert len(text) <= MOST_CHARACTERS
    assert (len(read["group"]), read["empty"]) == (301, [])
    assert len(read["rows"]) + read["left_off"]["rows"] == 5_000
    assert read["rows"][0] == {"id": "y" * 300 + "…"}
    assert json.loads(text_of({"rows": [1, 2]}, 2)) == {"rows": [1, 2]}


def test_a_group_of_thousands_fits(tmp_path: Path) -> None:
    """A generation that a thousand members joined, sixty times."""
    causes = [{"kind": "member_joined", "member_id": f"m-{n}" * 50, "evidence": "observed"} for n in range(1000)]
    journal = FolderJournal(tmp_path)
    for n in range(60):
        owners = {f"m-{member}": {"orders": [member]} for member in range(1000)}
        journal.write(JournalLine(n, "crew", n, "stable", "CompletingRebalance", "Stable", causes, owners=owners))
    source = AWAY._replace(journal=str(tmp_path))
    result = asyncio.run(call_tool(source, "history", {"group": "crew", "most": 100}))
    assert not result.is_error
    assert len(result.text) <= MOST_CHARACTERS
    read = json.loads(result.text)
    assert read["events"][0]["generation"] == 59
    assert read["events"][0]["why"].endswith("…")
    assert read["causes"] == {"member_joined": 60_000}
    assert read["left_off"]["events"] + len(read["events"]) == 60


@pytest.mark.slow
def test_a_client_starts_the_command() -> None:
    """As an agent's configuration does."""
    with LocalBroker() as broker:
        broker.create_topic("orders", 2)
        arguments = ["-m", "coterie", "mcp", "--bootstrap-server", broker.bootstrap_servers]

        async def talk() -> tuple[Any, Any]:
            async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
                return await client.call_tool("groups", {}), await client.call_tool("lag", {"group": "none"})

        listed, refused = asyncio.run(talk())
        assert (listed.is_error, json.loads(listed.content[0].text)) == (False, {"groups": []})
        assert (refused.is_error, refused.content[0].text.startswith("there is no group 'none'")) == (True, True)


def source_of(crew: Crew, folder: Path) -> ToolSource:
    """Of a cluster that is not coterie, as far as a client can see."""
    crew.broker.fail("ExplainGroup", ErrorCode.UNSUPPORTED_VERSION, client_id=AGENT, times=10**9)
    journal = FolderJournal(folder)
    for line in crew.lines:
        journal.write(line)
    client = {"bootstrap.servers": crew.broker.bootstrap_servers, "client.id": AGENT}
    return ToolSource(client, str(folder) if crew.lines else None)


@pytest.mark.slow
@pytest.mark.parametrize("incident", INCIDENTS, ids=NAMES)
def test_the_answer_is_in_the_response(incident: Incident, tmp_path: Path) -> None:
    with simulate(seed=1) as world:
        crew = incident.tell(world)
        source = source_of(crew, tmp_path)
        result = world.run(call_tool(source, incident.tool, incident.arguments))
        assert not result.is_error, result.text
        assert len(result.text) < MOST_CHARACTERS / 2
        read = incident.reads(json.loads(result.text))
        assert any(incident.response in text for text in read), result.text
