"""Names from strangers are shown, never obeyed: every command that writes what a broker says, with names made of every
control character there is."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli import main
from coterie.client import Consumer, Producer
from coterie.client.types import OffsetAndMetadata
from coterie.console.terminal import VisibleFormatter
from coterie.testing import LocalBroker
from coterie.text.hidden import visible

# Written anew, not taken from the code that is asked.
FORBIDDEN = {
    *map(chr, range(0x20)),
    *map(chr, range(0x7F, 0xA0)),
    *"\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
}
HOSTILE = "\x1b]0;title\x07\x1b[2J[bold]x[/][/nothing]" + "".join(sorted(FORBIDDEN))
PLAIN = "plain"

# What is asked of a broker with such a group and such a topic. GROUP and TOPIC stand for their names.
COMMANDS = [
    "clients",
    "clients GROUP",
    "groups list",
    "groups list --json",
    "groups describe GROUP",
    "groups describe GROUP --json",
    "groups why GROUP",
    "groups why GROUP --json",
    "groups watch GROUP --times 1",
    "groups watch GROUP --times 1 --json",
    "groups history GROUP",
    "groups history GROUP --all",
    "groups history GROUP --all --json",
    "groups lint GROUP",
    "groups lint GROUP --json",
    "groups flapping GROUP",
    "groups flapping GROUP --json",
    "groups predict GROUP --seeds 1",
    "groups predict GROUP --seeds 1 --json",
    "groups reset GROUP --to earliest --dry-run",
    "groups reset GROUP --to earliest --dry-run --json",
    "groups reset GROUP --to earliest",
    "groups delete-offsets GROUP --topic TOPIC --dry-run",
    "groups delete-offsets GROUP --topic TOPIC --json",
    "groups delete GROUP",
    "groups dump FOLDER",
    "log check FOLDER",
    "log check FOLDER --json",
    "log bootstrap FOLDER --release 4.4",
    "topics list",
    "topics list --json",
    "topics describe TOPIC",
    "topics describe TOPIC --json",
    "topics create TOPIC",
    "topics create TOPIC-2",
    "topics create TOPIC-3 --json",
    "topics grow TOPIC --partitions 2",
    "topics elect TOPIC",
    "topics elect TOPIC --partition 7",
    "topics reassign TOPIC --brokers 1",
    "topics reassign TOPIC --brokers 1 --dry-run --json",
    "topics reassign TOPIC --brokers GROUP",
    "topics reassign --plan OUT",
    "topics reassign --list",
    "topics delete TOPIC-2",
    "topics delete TOPIC-none",
    "consume TOPIC --from-beginning -n 2 --json",
    "produce TOPIC --json",
    "observe --group GROUP --from-beginning --for 3",
    "acls add --principal User:GROUP --operation read --group GROUP",
    "acls list --principal User:GROUP",
    "acls why --principal User:GROUP --operation read --group GROUP",
    "acls remove --principal User:GROUP --operation read --group GROUP",
    "quotas set --user GROUP --quota producer_byte_rate=1000000000",
    "quotas list",
    "quotas list --json",
    "quotas remove --user GROUP producer_byte_rate",
    "users list",
    "users remove GROUP",
    "certify --rules --like GROUP",
    "certify-client --story GROUP -- x",
    "broker --memory --set GROUP=1",
    "wire GROUP",
    "pipeline as-of GROUP --history FOLDER",
    "pipeline fleet --history FOLDER --out OUT",
    "pipeline report GROUP --history FOLDER --out OUT",
    "GROUP",
]
# Commands that write nothing of a stranger's, or whose texts go through the same door in another test.
ELSEWHERE = {
    "cluster describe": "writes of brokers that `cluster start` started",
    "cluster start": "writes of brokers that it starts",
    "cluster stop": "writes of brokers that `cluster start` started",
    "console": "writes its address alone; tests/web has its pages",
    "demo": "names all that it shows itself",
    "groups migrate": "the table of `groups describe`; needs a ZooKeeper",
    "lab handover": "names all that it shows itself",
    "lab migration": "names all that it shows itself",
    "lab study": "names all that it shows itself",
    "mcp": "writes the documents of its protocol; tests/cli/mcp",
    "users add": "writes its own argument, and reads a password",
    "pipeline delays": "writes counts and folders",
    "pipeline export": "writes counts and folders",
    "pipeline history": "writes counts and folders",
    "pipeline keys": "writes counts and folders",
    "pipeline table": "writes counts and folders",
    "proxy": "writes addresses alone",
    "pipeline what-if": "shows settings of its own arguments",
}


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            subcommand = command.get_command(click.Context(command), name)
            assert subcommand is not None
            yield from leaves(subcommand, (*words, name))
    else:
        yield " ".join(words)


def test_every_command_is_asked_or_says_why_not() -> None:
    requested = {leaf for leaf in leaves(main) if any(line.split("GROUP")[0].startswith(leaf) for line in COMMANDS)}
    assert requested | set(ELSEWHERE) == set(leaves(main))
    assert not requested & set(ELSEWHERE)


def outputs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Every command's output where groups, clients, members, topics, metadata and reasons have this name."""
    for module in ("coterie.broker.storage.topic", "coterie.broker.handlers.cluster"):
        monkeypatch.setattr(f"{module}.is_legal_name", lambda _: True)
    group, topic, texts = f"g{name}", f"t{name}", {}
    with LocalBroker() as broker:
        broker.create_topic(topic)
        asyncio.run(_members_come_and_go(broker, group, topic, name))
        (member,) = broker.members(group)
        _write_dump(broker, folder)
        for line in COMMANDS:
            if line.startswith("groups reset") and broker.members(group):
                broker.expire(group, member)
            words = {"GROUP": group, "FOLDER": str(folder), "OUT": str(folder / "out")}
            arguments = [words.get(word, word.replace("TOPIC", topic).replace("GROUP", group)) for word in line.split()]
            done = CliRunner(env={"COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers}).invoke(
                main, arguments, input=f"{name}\n", catch_exceptions=False
            )
            texts[line] = done.output
    return texts


async def _members_come_and_go(broker: LocalBroker, group: str, topic: str, name: str) -> None:
    server = {"bootstrap.servers": broker.bootstrap_servers, "client.id": f"c{name}"}
    async with Producer(server) as producer:
        for n in range(2):
            await producer.send(topic, f"{n}{name}".encode(), name.encode(), headers=[(f"h{name}", name.encode())])
        await producer.flush()
    settings = server | {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    for member in ({}, {"group.instance.id": f"i{name}"}):  # one that leaves, then one that stays
        async with Consumer(settings | member) as consumer:
            consumer.subscribe([topic])
            await consumer.poll(30_000)
            await consumer.commit({(topic, 0): OffsetAndMetadata(1, -1, name)})


def _write_dump(broker: LocalBroker, folder: Path) -> None:
    """The records of `__consumer_offsets` as the broker in memory has them, in segment files."""
    for number, partition in enumerate(broker.broker.topics.by_name["__consumer_offsets"].partitions):
        data = partition.log.read(0, 1 << 20)
        if data:
            kept = folder / f"__consumer_offsets-{number}"
            kept.mkdir(parents=True, exist_ok=True)
            (kept / f"{0:020}.log").write_bytes(data)


@pytest.mark.slow
def test_no_command_writes_a_control_character(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = outputs(HOSTILE, tmp_path / "hostile", monkeypatch)
    raw = {line: sorted((FORBIDDEN - {"\n"}) & set(text)) for line, text in hostile.items()}
    assert not {line: characters for line, characters in raw.items() if characters}
    # Nor does a name start a line of its own: as many outputs as with a name that does no harm.
    plain = outputs(PLAIN, tmp_path / "plain", monkeypatch)
    del plain["groups why GROUP"]  # a drawing: long names are folded
    assert {line: hostile[line].count("\n") for line in plain} == {line: t.count("\n") for line, t in plain.items()}
    for line in COMMANDS:
        if "--json" in line:
            for text in hostile[line].splitlines() if "consume" in line or "watch" in line else [hostile[line]]:
                json.loads(text)
    shown = [line for line, text in hostile.items() if "\\x1b]0;title\\x07" in text]
    assert len(shown) >= 20, shown  # the names are there, as escapes


def _on_a_terminal(*args: str, address: str) -> bytes:
    """What a command writes to a terminal that knows no colours."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "COTERIE_BOOTSTRAP_SERVER": address}
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", *args], stdout=theirs, stderr=theirs, stdin=theirs, env=environment
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            data = os.read(ours, 65_536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        written += data
    assert process.wait(30) == 0, written
    os.close(ours)
    return written


def test_consume_obeys_nothing_on_a_terminal_and_is_raw_in_a_pipe() -> None:
    value = HOSTILE.encode() + b"\xff\xfe"
    with LocalBroker() as broker:
        broker.create_topic("t")
        broker.produce("t", value, b"two\nlines\tand a tab")
        arguments = ("consume", "t", "--from-beginning", "-n", "2")
        seen = _on_a_terminal(*arguments, address=broker.bootstrap_servers).decode().replace("\r\n", "\n")
        assert not (FORBIDDEN - {"\n", "\t"}) & set(seen)
        assert "\\x1b]0;title\\x07" in seen
        assert "two\nlines\t" in seen.expandtabs(1).replace(" and", "\tand")
        environment = {**os.environ, "COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers}
        command = [sys.executable, "-m", "coterie", *arguments]
        piped = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
        assert piped.stdout == value + b"\ntwo\nlines\tand a tab\n"


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Lu", "So"])))
def test_every_text_is_made_visible(text: str) -> None:
    """Also lone surrogates, which no encoding can write; and what is shown once is shown so again."""
    shown = visible(text)
    assert not FORBIDDEN & set(shown)
    shown.encode()
    assert visible(shown) == shown
    kept = [c for c in text if c not in FORBIDDEN and not 0xD800 <= ord(c) <= 0xDFFF]
    assert [c for c in shown if ord(c) > 0x7F] == [c for c in kept if ord(c) > 0x7F]
    assert visible("ü → 漢字") == "ü → 漢字"


@given(st.text(st.sampled_from(sorted(FORBIDDEN | {"a"}))))
def test_a_log_line_is_one_visible_line(text: str) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(VisibleFormatter("%(levelname)s %(message)s"))
    logger = logging.Logger("strangers")
    logger.addHandler(handler)
    logger.warning("client %s", text)
    assert not (FORBIDDEN - {"\n"}) & set(written.getvalue())
    assert written.getvalue().count("\n") == 1
    try:
        raise ValueError(text)
    except ValueError:
        logger.exception("failed")
    assert not (FORBIDDEN - {"\n", "\t"}) & set(written.getvalue())


def test_a_brokers_log_is_visible(tmp_path: Path) -> None:
    """A client that asks for what is not served is named in the log."""
    command = [sys.executable, "-m", "coterie", "broker", "--memory", "--listen", "127.0.0.1:0", "-v"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    host, _, port = process.stdout.readline().decode().split()[-1].rpartition(":")
    name = HOSTILE.encode()
    header = (999).to_bytes(2, "big") + bytes(2) + bytes(4) + len(name).to_bytes(2, "big") + name
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(len(header).to_bytes(4, "big") + header)
        assert connection.recv(1) == b""
    process.terminate()
    _, log = process.communicate(timeout=20)
    assert b"title" in log
    assert not (FORBIDDEN - {"\n"}) & set(log.decode())


def test_commands_write_through_one_door() -> None:
    """`console.terminal`: nothing in the command line writes past it."""
    past: Callable[[str], list[str]] = re.compile(
        r"click\.s?echo\(|(?<![\w.])print\(|sys\.std(?:out|err)\.write|rich\.console import Console$", re.M
    ).findall
    folder = Path(__file__).parents[2] / "src" / "coterie" / "cli"
    allowed = {"exit_codes.py": ["click.echo("]}  # the sentence for an output that cannot be written
    for path in folder.rglob("*.py"):
        assert past(path.read_text()) == allowed.get(path.name, []), path
