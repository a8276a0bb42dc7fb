"""The tables of every command on terminals of 80, 100 and 200 columns: no line is wider, a row is a line, and only the last
column is ever folded. The commands run in a process whose standard output is a real terminal."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from coterie.client.blocking import BlockingAdmin, BlockingConsumer
from coterie.console.tables import NARROW, UUID, ShortIds, table_lines
from coterie.console.terminal import folded
from coterie.testing import LocalBroker

WIDTHS = (80, 100, 200)
# Command -> the first header of its table.
TABLES = {
    "groups history crew": "TIME",
    "groups history crew --all": "TIME",
    "groups list": "GROUP",
    "groups describe crew": "TOPIC",
    "groups why crew": "MEMBER",
    "groups reset other --to earliest --dry-run": "TOPIC",
    "groups delete-offsets other --topic orders --dry-run": "TOPIC",
    "topics list --internal": "TOPIC",
    "topics describe orders": "PARTITION",
    "topics elect orders": "TOPIC",
    "topics reassign orders --brokers 1 --dry-run": "TOPIC",
    "cluster describe": "BROKER",
    "lab handover --members 2 --partitions 4": "ASSIGNOR",
    "lab migration --members 2 --partitions 2": "STEP",
}
ANNA, LIKE_ANNA = "12345678-aaaa-bbbb-cccc-dddddddddddd", "12349999-aaaa-bbbb-cccc-dddddddddddd"
# Tables whose commands need Spark, ZooKeeper or an Apache Kafka: headers and a row as wide as they come.
GIVEN: dict[str, tuple[list[str], list[tuple[str, ...]]]] = {
    "pipeline as-of": (["MEMBER", "CLIENT", "PARTITIONS"], [(f"anna-{ANNA}", "anna", "orders-0 orders-1")]),
    "groups migrate": (
        ["TOPIC", "PARTITION", "ZOOKEEPER", "BEFORE", "NOW", "RESULT"],
        [("orders", "0", "12345", "12345", "12345", "left: the coordinator has it as far or further")],
    ),
    "topics reassign --list": (
        ["TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING", "STATE"],
        [("orders", "12", "1,2,3,4,5,6", "4,5,6", "1,2,3", "in progress")],
    ),
}
RUN = """
import os, sys
from coterie.cli import main
from coterie.cli.parts.exit_codes import exit_code
for line in sys.argv[1:]:
    os.write(1, f"$ {line}\\n".encode())
    sys.stdout.flush()
    exit_code(lambda: main(line.split(), standalone_mode=False))
    sys.stdout.flush()
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    """A group of two members whose third has left, with the ids and reasons of real clients."""
    with LocalBroker({"group.initial.rebalance.delay.ms": "0"}) as local:
        local.create_topic("orders", 6)
        for partition in range(6):
            local.produce("orders", b"v", partition=partition)

        def joined(client_id: str) -> BlockingConsumer:
            settings = {"group.id": "crew", "client.id": client_id, "auto.offset.reset": "earliest"}
            consumer = BlockingConsumer({"bootstrap.servers": local.bootstrap_servers} | settings)
            consumer.subscribe(["orders"])
            members.append(consumer)
            while not all(member.assignment() for member in members) or len(local.members("crew")) < len(members):
                for member in members:
                    member.poll(20)
            return consumer

        members: list[BlockingConsumer] = []
        joined("anna")
        joined("ben")
        joined("cleo").close()
        members.pop()
        with BlockingAdmin({"bootstrap.servers": local.bootstrap_servers}) as admin:
            admin.alter_consumer_group_offsets("other", {("orders", 0): 1})
        yield local
        for member in members:
            member.close()


def on_a_terminal(broker: LocalBroker, width: int, commands: Iterable[str] = ()) -> dict[str, list[str]]:
    """The output of each command by its name: of commands that write tables, or of commands that fail."""
    terminal, standard_output = os.openpty()
    fcntl.ioctl(standard_output, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    environment = kept | {"COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers, "TERM": "xterm"}
    command = [sys.executable, "-c", RUN, *(commands or TABLES)]
    stderr = standard_output if commands else subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=standard_output, stderr=stderr, env=environment)
    os.close(standard_output)
    written = b""
    with os.fdopen(terminal, "rb", buffering=0) as reader:
        while True:
            try:
                data = reader.read(65_536)
            except OSError:  # on Linux the end of a terminal is EIO
                break
            if not data:
                break
            written += data
    assert process.wait(60) == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", written.decode()).replace("\r", "")
    parts = re.split(r"^\$ (.+)\n", plain, flags=re.M)
    return {line: text.rstrip("\n").split("\n") for line, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.fixture(scope="module", params=WIDTHS)
def shown(broker: LocalBroker, request: pytest.FixtureRequest) -> tuple[int, dict[str, list[str]]]:
    return request.param, on_a_terminal(broker, request.param)


def test_no_line_is_wider_than_the_terminal(shown: tuple[int, dict[str, list[str]]]) -> None:
    width, commands = shown
    assert commands.keys() == TABLES.keys()
    for line, lines in commands.items():
        assert max(map(cell_len, table_of(line, lines))) <= width, line


def table_of(line: str, lines: list[str]) -> list[str]:
    """The last line of the headers and the rows, without the sentences around them."""
    names = tuple(f"{name} " for name in (TABLES[line], NARROW.get(TABLES[line], TABLES[line]).split("\n")[-1]))
    top = next(number for number, text in enumerate(lines) if text.startswith(names))
    rows = lines[top:]
    ends = [number for number, text in enumerate(rows) if not text or text.startswith(("total lag", "lag "))]
    return rows[: ends[0]] if ends else rows


@pytest.mark.parametrize("line", TABLES)
def test_only_the_last_column_is_folded(shown: tuple[int, dict[str, list[str]]], line: str) -> None:
    """Then a continued line has nothing but its last column."""
    _, commands = shown
    headers, *rows = table_of(line, commands[line])
    last = headers.rindex(" ") + 1
    assert rows
    for text in rows:
        assert not text.startswith(" ") or text[:last].strip() == "", text


def test_a_generation_is_a_row_and_its_date_is_written_once(shown: tuple[int, dict[str, list[str]]]) -> None:
    _, commands = shown
    _, date, *rows = table_of("groups history crew", commands["groups history crew"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    generations = [row for row in rows if re.match(r"\d\d:\d\d:\d\d\.\d{3} ", row)]
    assert rows == generations, "a row each"
    assert len(generations) >= 3
    assert not UUID.search("\n".join(rows))
    assert "anna-… joined" in rows[0]


def test_the_reasons_of_clients_are_left_out_only_where_the_terminal_is_narrow(broker: LocalBroker) -> None:
    assert "(the consumer has just started)" in "\n".join(on_a_terminal(broker, 200)["groups history crew"])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", GIVEN)
def test_tables_of_commands_that_need_more_than_a_broker(name: str, width: int) -> None:
    headers, rows = GIVEN[name]
    lines = table_lines(headers, rows, width)
    assert max(map(cell_len, [*lines.headers, *lines.body])) <= width
    first = lines.body[0]
    assert all(ShortIds([])(cell) in first or UUID.search(cell) for cell in rows[0][:-1])


def test_two_ids_that_begin_alike_keep_as_much_as_tells_them_apart() -> None:
    one, two, ben = f"anna-{ANNA}", f"anna-{LIKE_ANNA}", f"ben-{ANNA}"
    short = ShortIds([f"{one} joined; {ben} left", two])
    assert short(f"{one} joined; {ben} left") == "anna-12345… joined; ben-… left"
    assert short(f"{two}-0") == "anna-12349…-0"


def test_sentences_are_folded_between_words() -> None:
    lines = folded("  next: Remove them from the settings of the members", 30).split("\n")
    assert lines == ["  next: Remove them from the", "  settings of the members"]
    assert folded("中" * 16 + " 中", 32) == "中" * 16 + "\n中"
    assert folded("a " + "b" * 40, 20) == "a\n" + "b" * 40, "a path stays whole"
    assert folded("columns   of   their   own", 26) == "columns   of   their   own"
    assert folded("x " * 40, None) == "x " * 40


def test_the_sentences_of_lint_and_of_an_error_are_folded_between_words(broker: LocalBroker) -> None:
    """On a terminal of 80 columns; each line but the last of a sentence ends where the next word did not fit."""
    commands = ("groups lint crew", "consume orders --set enable.partition.eof=true")
    shown = on_a_terminal(broker, 80, commands)
    for line in commands:
        assert len(shown[line]) > 2, line
        assert max(map(cell_len, shown[line])) <= 80, line
    assert " of coterie: use Consumer.end_offsets" in " ".join(shown[commands[1]])


def test_in_a_pipe_nothing_is_shortened(broker: LocalBroker, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "coterie", "groups", "history", "crew", "-b", broker.bootstrap_servers]
    piped = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = piped.splitlines()[1:]
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:", row) for row in rows)
    assert UUID.search(rows[0])
