"""The Model Context Protocol on standard input and output, by the library `mcp`; needs the extra coterie[mcp]."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from coterie import __version__
from coterie.cli.mcp.tools import TOOLS, ToolSource, call_tool

INSTRUCTIONS = (
    "Consumer groups of one Kafka cluster, read-only. Begin with groups where no group is named; history has why a group "
    "rebalanced, why what it does now, lag how far behind it is. A cause with evidence unknown or inferred is no fact."
)


def make_server(source: ToolSource) -> Server[Any]:
    """A server of the tools, without a transport."""

    async def list_tools(_: object, __: object) -> types.ListToolsResult:
        read_only = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    title=tool.title,
                    description=tool.description,
                    input_schema=tool.schema(),
                    annotations=read_only,
                )
                for tool in TOOLS.values()
            ]
        )

    async def call(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        result = await call_tool(source, params.name, params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)], is_error=result.is_error
        )

    return Server(
        "coterie", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call
    )


async def serve(source: ToolSource) -> None:
    """Until standard input ends."""
    server = make_server(source)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
