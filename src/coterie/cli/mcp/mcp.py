"""`coterie mcp`: a server of the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import asyncio

import click

from coterie.cli.parts.invocation import broker_option, journal_option, sentences
from coterie.runtime.extras import require
from coterie.runtime.interruption import end_at_once, on_signal


@click.command(
    epilog="""\b
Examples:
  coterie mcp -b kafka:9092
  coterie mcp -b kafka:9092 --journal ./journal
  claude mcp add kafka-groups -- coterie mcp -b kafka:9092
"""
)
@journal_option
@broker_option
def mcp(journal: str | None, client: dict[str, str]) -> None:
    """Explain groups to agents, over the Model Context Protocol.

    A client of the protocol starts the command and talks with it on standard input and output; it ends with its input. The
    tools groups, why, history, lint, predict and lag read, on any Kafka, what the commands of `coterie groups` show, and
    can change nothing.
    """
    require("mcp", "coterie mcp")
    from coterie.cli.mcp.server import serve
    from coterie.cli.mcp.tools import ToolSource

    # A read of standard input cannot be cancelled; nothing is open that would want an orderly end.
    with on_signal(end_at_once(0)):
        sentences(asyncio.run, serve(ToolSource(client, journal)))
