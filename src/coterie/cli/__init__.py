"""Ring 4: the command line, one file per verb. Commands are imported when they are used, so that each starts fast.

`coterie.program` is the entry, `exit_codes` has how a command ends, and all that commands write goes through
`console.terminal`.
"""

from __future__ import annotations

import importlib
import sys

import click

from coterie.cli.parts.commands import VerbGroup

# verb -> (module, its line in `coterie --help`)
VERBS = {
    "broker": ("coterie.cli.broker", "Run a Kafka-compatible broker."),
    "cluster": ("coterie.cli.cluster.cluster", "Start, describe and stop a cluster of brokers."),
    "topics": ("coterie.cli.topics.topics", "List, create, describe, grow, move and delete topics."),
    "produce": ("coterie.cli.produce", "Write lines to a topic."),
    "consume": ("coterie.cli.consume", "Read a topic, alone or as a member of a group."),
    "groups": ("coterie.cli.groups.groups", "Show, explain, reset and delete consumer groups."),
    "observe": ("coterie.cli.observe", "Explain why groups rebalance, on any Kafka."),
    "console": ("coterie.cli.console", "Show groups in a browser, live."),
    "mcp": ("coterie.cli.mcp.mcp", "Explain groups to agents (MCP), on any Kafka."),
    "users": ("coterie.cli.users", "Add, list and remove users that log in."),
    "acls": ("coterie.cli.access.acls", "List, add, remove and explain ACLs."),
    "quotas": ("coterie.cli.access.quotas", "List, set and remove client quotas."),
    "clients": ("coterie.cli.clients", "Show the metrics that clients push."),
    "proxy": ("coterie.cli.proxy", "Run a proxy before any Kafka."),
    "log": ("coterie.cli.log", "Check a data folder, coterie's or Apache Kafka's."),
    "pipeline": ("coterie.cli.pipeline.pipeline", "Turn topics into tables with Spark."),
    "lab": ("coterie.cli.lab.lab", "Run groups in virtual time."),
    "wire": ("coterie.cli.wire", "Show a message's fields and its generated codec."),
    "certify": ("coterie.cli.certify", "Compare a broker with the recorded Apache Kafka."),
    "certify-client": ("coterie.cli.certify_client", "Test a consumer or producer in any language."),
    "demo": ("coterie.cli.demo", "Show coterie at work on real flights."),
}


class _Verbs(VerbGroup):
    """A broker runs on an asyncio without `ssl`."""

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name == "broker":
            _import_asyncio_without_ssl()
        return super().get_command(ctx, name)


def _import_asyncio_without_ssl() -> None:
    """A broker speaks no TLS; with OpenSSL it takes 4 MB more, and its start a twentieth longer. asyncio runs without `ssl`,
    as in a Python that was built without it. A later import of `ssl` succeeds."""
    if sys.modules.keys() & {"asyncio", "ssl"}:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # "cannot be imported"
    try:
        importlib.import_module("asyncio")
    finally:
        del sys.modules["ssl"]


def _write_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    from coterie.console.terminal import write_lines
    from coterie.records import compiled

    write_lines([f"coterie, version {version('coterie')}", f"record codecs: {compiled.summary()}"])
    ctx.exit()


EPILOG = """\b
Examples:
  coterie broker --memory                      a broker on 127.0.0.1:9092
  coterie topics create flights --partitions 12
  coterie groups describe crew                 who owns what, and the lag
  coterie groups history crew                  why the group rebalanced

Exit codes: 0 done, or stopped where it runs until it is stopped; 1 refused or failed; 2 wrong arguments
or settings; 3 a program that it needs cannot run here; 130 stopped by Ctrl-C or SIGTERM before it was done;
141 the reader of its output has gone.

\b
Shell completion, of topics and groups too:
  eval "$(_COTERIE_COMPLETE=bash_source coterie)"    bash; zsh: zsh_source
  _COTERIE_COMPLETE=fish_source coterie | source     fish
"""


@click.command(
    cls=_Verbs,
    verbs=VERBS,
    collects_later=("broker",),
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_write_version,
    help="Show the version, and which record codecs are compiled, and exit.",
)
def main() -> None:
    """Kafka's consumer groups in Python: broker, client, laboratory, Spark pipeline."""
