"""The commands that `./run conformance --part cli` runs on Apache Kafka 0.11 to 4.3, run on coterie."""

from __future__ import annotations

from coterie.cli import VERBS
from coterie.testing import LocalBroker
from coterie_conformance.tools.our_commands import COMMANDS, COTERIE, CommandCase, run_commands, wrong


def test_our_commands_on_our_broker() -> None:
    failures: list[str] = []
    with LocalBroker({"auto.create.topics.enable": "false"}) as broker:
        run_commands(
            broker.bootstrap_servers, COTERIE, lambda name, failure: failures.append(failure and name + failure)
        )
    assert len(failures) == len(COMMANDS)
    assert not [f for f in failures if f]


# Run on coterie and on single versions of Kafka, and not yet on each.
NOT_YET = {
    "groups flapping",
    *("acls add", "acls list", "acls remove", "acls why"),
    *("quotas list", "quotas remove", "quotas set"),
    *("users add", "users list", "users remove"),
}


def test_every_verb_that_takes_a_bootstrap_server_is_in_the_table() -> None:
    """Except those that need Spark, the servers, and those with a part of their own."""
    import importlib

    import click

    taking: set[str] = set()
    for verb, (module, _) in VERBS.items():
        command = getattr(importlib.import_module(module), verb.replace("-", "_"))
        commands = command.commands if isinstance(command, click.Group) else {"": command}
        taking |= {
            f"{verb} {name}".strip()
            for name, sub in commands.items()
            if verb != "pipeline" and any("--bootstrap-server" in p.opts for p in sub.params)
        }
    assert {line for line in taking if not any(c.line.startswith(line) for c in COMMANDS)} == {
        "certify",
        "groups migrate",  # part zookeeper
        "groups predict",  # part predict
        "console",
        "mcp",
        *NOT_YET,
    }


def test_a_row_can_fail() -> None:
    row = CommandCase("x", "^right$", since="1.0", refusal="not before 1.0")
    assert not wrong(row, "1.1.1", 0, "right\n")
    assert not wrong(row, "0.11.0.3", 1, "Error: not before\n1.0\n")
    for version, code, output in [
        ("1.1.1", 1, "right"),
        ("1.1.1", 0, "wrong"),
        ("0.11.0.3", 0, "right"),
        ("0.11.0.3", 1, "something else"),
        ("0.11.0.3", 1, "Traceback (most recent call last) not before 1.0"),
    ]:
        assert wrong(row, version, code, output)
