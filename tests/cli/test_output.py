"""What the person at the terminal reads: numbers with their nouns, lag, causes, settings, addresses."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.cli import main
from coterie.client import Consumer
from coterie.testing import LocalBroker
from coterie.text.addresses import format_address, parse_address
from coterie.text.quantity import lag_text, quantity, total_lag

ROOT = Path(__file__).parent.parent.parent
# Words in s after a number or a name that are no nouns in plural.
VERBS = (
    "has|is|was|leads|lists|joins|leaves|needs|takes|gives|runs|says|owns|names|reads|serves|owes|waits|subscribes|"
    "differs|starts|listens|begins|ends|s|ms|does|goes|knows|as|breaks|agrees|holds|stands|keeps|logs"
)
ONE_OF_MANY = re.compile(rf"(?<![\d.,\w-])1 (?!(?:{VERBS})\b)[a-z]+s\b")


def coterie(broker: LocalBroker, line: str, stdin: str = "") -> str:
    """What a command writes, on both of its outputs."""
    environment = {"COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers}
    result = CliRunner(env=environment).invoke(main, line.split(), input=stdin, catch_exceptions=False)
    return result.output


async def _read(broker: LocalBroker, topic: str, *, commit: bool, **settings: str) -> None:
    """One life of a member of the group crew; it reads, and leaves if it is dynamic."""
    given = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "crew", "enable.auto.commit": False}
    given |= {"auto.offset.reset": "earliest"} | {name.replace("_", "."): value for name, value in settings.items()}
    async with Consumer(given) as consumer:
        consumer.subscribe([topic])
        await consumer.poll(30_000)
        if commit:
            await consumer.commit()


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The outputs of commands about one of everything: topic, partition, record, member, committed offset."""
    folder = tmp_path_factory.mktemp("data")
    written: dict[str, str] = {}
    with LocalBroker() as broker:

        def run(name: str, line: str, stdin: str = "") -> None:
            written[name] = coterie(broker, line, stdin)

        run("create", "topics create orders -p 1 -c retention.ms=86400000")
        run("produce", "produce orders", "one\n")
        asyncio.run(_read(broker, "orders", commit=False, group_instance_id="anna"))
        run("describe without commit", "groups describe crew")
        run("describe without commit, JSON", "groups describe crew --json")
        run("why without commit", "groups why crew")
        asyncio.run(_read(broker, "orders", commit=True, group_instance_id="anna"))
        run("describe", "groups describe crew")
        run("why", "groups why crew")
        run("watch", "groups watch crew --times 1")
        run("lint", "groups lint crew")
        run("lint of a dynamic member", "groups lint crew")
        (member,) = broker.members("crew")
        broker.expire("crew", member)
        run("describe when empty", "groups describe crew")
        run("why when empty", "groups why crew")
        run("history", "groups history crew")
        run("history, JSON", "groups history crew --json")
        run("history of no group", "groups history nobody")
        _write_dump(broker, folder)
        run("dump", f"groups dump {folder}")
        run("log check", f"log check {folder}")
        run("describe topic", "topics describe orders")
        run("describe topic, all", "topics describe orders --all")
        run("describe topic, JSON", "topics describe orders --json")
        run("handover", "lab handover --members 1 --partitions 1")
        yield written


def test_consume_prints_what_a_deserializer_returns(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("numbers", 1)
    coterie_broker.produce("numbers", (7).to_bytes(8, "big"))
    line = "consume numbers --from-beginning -n 1 --set value.deserializer=LongDeserializer"
    assert coterie(coterie_broker, line) == "7\n"
    assert json.loads(coterie(coterie_broker, f"{line} --json"))["value"] == "7"
    line = line.replace("LongDeserializer", "StringDeserializers")
    assert "Error: value.deserializer is wrong: there is no StringDeserializers; there are " in coterie(
        coterie_broker, line
    )


def _write_dump(broker: LocalBroker, folder: Path) -> None:
    for number, partition in enumerate(broker.broker.topics.by_name["__consumer_offsets"].partitions):
        path = folder / f"__consumer_offsets-{number}"
        path.mkdir()
        (path / f"{0:020}.log").write_bytes(partition.log.read(0, 1 << 20))


def test_one_of_anything_is_singular(outputs: dict[str, str]) -> None:
    plural = {name: ONE_OF_MANY.findall(text) for name, text in outputs.items() if not name.endswith("JSON")}
    assert not {name: texts for name, texts in plural.items() if texts}
    assert ONE_OF_MANY.search("Stable, 1 members")  # the check can fail
    assert outputs["produce"] == "1 record acknowledged\n"
    assert outputs["describe"].startswith("crew: Stable, assignor range, 1 member\n")


def test_pages_show_no_one_of_many() -> None:
    """Recorded outputs in the documentation."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    recorded = {page: re.findall(r"^```\w*\n(.*?)^```", page.read_text(), re.M | re.S) for page in pages}
    plural = {page.name: ONE_OF_MANY.findall("\n".join(blocks)) for page, blocks in recorded.items()}
    assert not {name: texts for name, texts in plural.items() if texts}


COUNTING = ("cli", "console", "demo", "coordinator/views/classic_group.py", "client/lint/lint.py", "testing")


def counted_by_hand(text: str) -> Iterator[str]:
    """The nouns in plural that follow a value in an f-string."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            for value, after in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
                    noun = re.match(r" ([a-z]+s)\b(?!/)", str(after.value))
                    if noun is not None and not re.fullmatch(VERBS, noun[1]):
                        yield f"{node.lineno}: {noun[1]}"


def test_every_text_counts_by_quantity() -> None:
    files = [
        path
        for name in COUNTING
        for path in [ROOT / "src/coterie" / name]
        for path in (path.rglob("*.py") if path.is_dir() else [path])
    ]
    by_hand = {path.name: [*counted_by_hand(path.read_text())] for path in files}
    assert not {name: nouns for name, nouns in by_hand.items() if nouns}
    assert [*counted_by_hand('f"{n} members and {name} has {m:,} records"')] == ["1: members", "1: records"]


@given(st.integers(0, 10**12))
@example(1)
@example(2)
def test_a_quantity_is_singular_only_for_one(number: int) -> None:
    assert quantity(number, "story", "stories") == f"{number:,} {'story' if number == 1 else 'stories'}"
    assert quantity(number, "member").endswith("s") == (number != 1)


def test_a_partition_without_a_commit_has_no_lag(outputs: dict[str, str]) -> None:
    assert "total lag: unknown; 1 partition has no committed offset" in outputs["describe without commit"]
    assert json.loads(outputs["describe without commit, JSON"])["lag"] is None
    assert "lag unknown; 1 partition has no committed offset" in outputs["why without commit"]
    assert outputs["describe"].endswith("total lag: 0\n")
    assert outputs["why"].endswith("lag 0\n")


def _partition(committed: int | None, end: int) -> dict[str, Any]:
    return {"committed": committed, "lag": None if committed is None else end - committed}


@given(st.lists(st.one_of(st.none(), st.integers(0, 1000))))
def test_the_total_is_that_of_the_known(committed: list[int | None]) -> None:
    partitions = [_partition(offset, 1000) for offset in committed]
    known = [1000 - offset for offset in committed if offset is not None]
    assert total_lag(partitions) == (sum(known) if known or not committed else None)
    assert ("no committed offset" in lag_text(partitions)) == (None in committed)
    assert ("unknown" in lag_text(partitions)) == (bool(committed) and not known)


def test_why_of_a_group_of_one(outputs: dict[str, str]) -> None:
    assert "no rebalance is under way: generation 1 has 1 member\n" in outputs["why"]
    assert "then the member is removed, and the group is empty" in outputs["why"]
    assert "the group has no members and 1 committed offset" in outputs["why when empty"]


def test_history_shows_how_many_partitions_moved_and_which_lost_their_owner(outputs: dict[str, str]) -> None:
    header, *rows = outputs["history"].splitlines()
    assert header.split() == ["TIME", "GENERATION", "EVENT", "MEMBERS", "JOIN", "SYNC", "MOVED", "UNOWNED", "WHY"]
    columns = ("EVENT", "MOVED", "UNOWNED")
    starts = {name: header.index(name) for name in columns}
    shown = [tuple(row[starts[name] :].split("  ")[0] for name in columns) for row in rows]
    (event, moved, unowned), *others = shown
    assert (event, moved) == ("stable", "0")
    assert re.fullmatch(r"\d\.\d s", unowned)  # 0.0 where nothing else runs
    assert others == [("member_replaced", "-", "-"), ("empty", "0", "1 still")]
    assert "anna returned as a static member" in rows[1]
    lines = json.loads(outputs["history, JSON"])
    assert [(line.get("moved_count"), line.get("unowned_count")) for line in lines] == [(0, 0), (None, None), (0, 1)]


def test_a_group_without_events(outputs: dict[str, str]) -> None:
    remedy = "of another broker than coterie, `coterie observe --journal DIR` writes one"
    assert outputs["history of no group"] == f"the journal has no events of group nobody; {remedy}\n"


def test_a_dump_leaves_out_what_an_empty_group_lacks(outputs: dict[str, str]) -> None:
    assert "group crew consumer, generation 2, no members\n" in outputs["dump"]
    assert "None" not in outputs["dump"]


def test_a_topic_shows_the_settings_that_differ(outputs: dict[str, str]) -> None:
    table, _, settings = outputs["describe topic"].partition("\n\n")
    assert table.split() == ["PARTITION", "LEADER", "REPLICAS", "ISR", "START", "END", "0", "1", "1", "1", "0", "1"]
    assert settings.split() == ["retention.ms=86400000"]
    every = outputs["describe topic, all"].partition("\n\n")[2].split()
    assert len(every) > 25
    assert {"retention.ms=86400000", "cleanup.policy=delete"} <= {*every}
    assert json.loads(outputs["describe topic, JSON"])["configs"] == {"retention.ms": "86400000"}


def test_the_headings_of_a_handover(outputs: dict[str, str]) -> None:
    assert "UNOWNED TIME" in outputs["handover"]
    assert "UNREAD" not in outputs["handover"]


# -- addresses ----------------------------------------------------------------------------------------------------------


@given(st.one_of(st.ip_addresses().map(str), st.just("localhost")), st.integers(0, 65_535))
def test_an_address_is_read_as_it_was_written(host: str, port: int) -> None:
    text = format_address(host, port)
    assert parse_address(text) == (host, port)
    assert ("[" in text) == (":" in host)


@pytest.mark.parametrize("text", ["", "localhost", "localhost:", "localhost:x", "[::1]", "h:65536", "h:-1", "h:²"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        parse_address(text)


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_an_ipv6_address_is_printed_in_brackets_and_reached() -> None:
    """What a broker prints is what a client takes."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "coterie", "broker", "--memory", "--listen", "[::1]:0", "--http", "[::1]:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().removeprefix("listening on ").strip()
        try:
            assert re.fullmatch(r"\[::1\]:\d+", address)
            assert re.fullmatch(r"groups and metrics on http://\[::1\]:\d+\n", process.stderr.readline())
            result = CliRunner().invoke(main, ["topics", "list", "-b", address], catch_exceptions=False)
            assert result.output == "there are no topics\n"
        finally:
            process.terminate()
            process.communicate(timeout=20)


def test_a_local_broker_on_ipv6_gives_an_address_with_brackets() -> None:
    with LocalBroker() as broker:
        broker.host, broker.port = "::1", 9092
        assert broker.bootstrap_servers == "[::1]:9092"
