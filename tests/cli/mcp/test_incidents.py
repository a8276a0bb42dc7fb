"""What the tools of `coterie mcp` return of planted incidents: the right response, in few characters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coterie.cli.mcp.tools import MOST_CHARACTERS, ToolSource, call_tool
from coterie.observer.journal_sinks import FolderJournal
from coterie.testing import ErrorCode, simulate
from tests.cli.mcp.incidents import AGENT, INCIDENTS, Incident
from tests.observer.stories import Crew

NAMES = [f"{incident.tell.__name__}-{incident.tool}" for incident in INCIDENTS]


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
