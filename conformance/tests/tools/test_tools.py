"""Part `tools`: its table, its masks and its comparison. The tools themselves need a JVM: `./run conformance`."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from coterie_conformance.tools.commands import COMMANDS
from coterie_conformance.tools.programs import NO_END, PROGRAMS, output_of
from coterie_conformance.tools.run import MASKS, MASKS_OF_SEVERAL, Output, ToolsSide, compare, run_program, side_of
from coterie_conformance.tools.table import FILES, LEFT_OUT, OF_SEVERAL, TOOLS, VERSIONS, Accepted, Compare, ToolCommand

SIDE = ToolsSide("127.0.0.1:9092", Path("/tmp/x/files"), Path("/tmp/x/data"))


def test_every_command_is_named_once_and_is_of_a_known_tool() -> None:
    names = Counter((version, c.name) for c in COMMANDS for version in c.versions)
    assert not [name for name, count in names.items() if count > 1]
    of_share_clients = {"kafka-share-consumer-perf-test"}  # used by that part
    assert {c.tool for c in COMMANDS} | of_share_clients == set(TOOLS) | set(PROGRAMS)
    assert all(set(c.versions) <= set(VERSIONS) for c in COMMANDS)


def test_each_version_has_its_commands() -> None:
    counts = {version: sum(version in c.versions for c in COMMANDS) for version in VERSIONS}
    assert counts["3.9.1"] >= 77, counts
    assert counts["4.3.0"] >= 82, counts


def test_every_accepted_difference_has_a_reason_and_a_pattern() -> None:
    accepted = [c.accepted for c in COMMANDS if c.accepted]
    assert all(len(a.reason) > 20 and a.ours and a.versions for a in accepted)


def test_the_files_of_the_commands_exist() -> None:
    words = [word for c in COMMANDS for word in c.arguments if word.startswith("{folder}/")]
    assert {word.removeprefix("{folder}/") for word in words} == set(FILES)


def test_a_command_names_its_server_and_its_files() -> None:
    command = ToolCommand("kafka-delete-records --offset-json-file {folder}/delete.json")
    words = ["--bootstrap-server", "127.0.0.1:9092", "--offset-json-file", "/tmp/x/files/delete.json"]
    assert SIDE.arguments(command, "4.3.0") == words
    dump = ToolCommand("kafka-dump-log --files {data}/records-0/0.log")
    assert SIDE.arguments(dump, "4.3.0") == ["--files", "/tmp/x/data/records-0/0.log"]


@pytest.mark.parametrize(
    ("printed", "masked"),
    [
        ("at 127.0.0.1:40001, localhost:40001", "at {address}, {address}"),
        ("TopicId: 7m1JBUOVTSm5CVqrIrW4vg PartitionCount", "TopicId: {id} PartitionCount"),
        ("TopicId: HCLStujdQKWOJ-nYWozwww", "TopicId: {id}"),
        ("tools-0a1b2c3d-0000-1111-2222-0123456789ab /127.0.0.1", "tools-{uuid} /127.0.0.1"),
        ("CreateTime: 1763760000123", "CreateTime: {time_ms}"),
        ("[2026-11-21 21:14:13,794] x", "[{time}] x"),
        ("a \t  b  \n", "a b\n"),
        ("oh\n\tat org.apache.kafka.X.y(X.java:1)\n\t... 5 more\nend", "oh\nend"),
        ("__consumer_offsets\n__coterie_journal\nrecords", "__consumer_offsets\nrecords"),
        ("/tmp/x/data/records-0", "{data}/records-0"),
        ("compression.type=producer, group-coordinator-append", "compression.type=producer, group-coordinator-append"),
    ],
)
def test_what_differs_by_nature_is_masked(printed: str, masked: str) -> None:
    assert SIDE.masked(Output("0", printed, "")).out == masked


def _status(theirs: Output, ours: Output, order: Compare = Compare.LINES, accepted: Accepted | None = None) -> str:
    return compare(ToolCommand("kafka-topics --list", compare=order, accepted=accepted), theirs, ours).status


def test_a_broker_in_memory_has_files_for_the_commands_too(tmp_path: Path) -> None:
    """Three of ours have no folder that was made for them."""
    side = side_of(("127.0.0.1", 9092), tmp_path / "coterie", MASKS)
    assert {path.name for path in side.folder.iterdir()} == {*FILES}


def test_outputs_and_exit_codes_are_compared() -> None:
    assert _status(Output("0", "a\nb", ""), Output("0", "a\nb\n", "")) == "same"
    assert _status(Output("0", "a\nb", ""), Output("1", "a\nb", "")) == "DIFFERENT"
    assert _status(Output("0", "a", ""), Output("0", "a", "warning")) == "DIFFERENT"
    assert _status(Output("0", "a\nb", ""), Output("0", "b\na", "")) == "DIFFERENT"
    assert _status(Output("0", "a\nb", ""), Output("0", "b\na", ""), Compare.ANY_ORDER) == "same"
    assert _status(Output("0", "12 x", ""), Output("0", "7.5 x", ""), Compare.NUMBERS_MASKED) == "same"


def test_shared_keys_leave_out_what_only_one_side_prints() -> None:
    theirs, shared = Output("0", "a=1 x\nonly.kafkas=2", ""), Compare.SHARED_KEYS
    assert _status(theirs, Output("0", "only.ours=3\na=1 x", ""), shared) == "same"
    assert _status(theirs, Output("0", "a=2 x", ""), shared) == "DIFFERENT"


def test_lines_that_are_left_out_have_a_reason_and_a_command() -> None:
    for left_out in LEFT_OUT:
        assert len(left_out.reason) > 20
        assert any(re.match(left_out.commands, c.name) for c in COMMANDS), left_out
    theirs, ours = Output("0", "__consumer_offsets:0:43\norders:0:1", ""), Output("0", "orders:0:1", "")
    assert compare(ToolCommand("kafka-get-offsets"), theirs, ours).status == "same"


def test_what_three_brokers_print_otherwise_is_of_a_command() -> None:
    assert {*OF_SEVERAL} <= {command.name for command in COMMANDS}


@pytest.mark.parametrize(
    ("printed", "masked"),
    [
        (
            "Topic: t Partition: 0 Leader: 1 Replicas: 1,2,3 Isr: 1,2",
            "Topic: t Partition: 0 Leader: 1 Replicas: N Isr: N",
        ),
        (
            "Topic: t PartitionCount: 1 ReplicationFactor: 3 Configs:",
            "Topic: t PartitionCount: 1 ReplicationFactor: N Configs:",
        ),
        ("Clearing broker-level throttles on broker 1", "Clearing broker-level throttles on brokers N"),
        ("Clearing broker-level throttles on brokers 1,2,3", "Clearing broker-level throttles on brokers N"),
        ("Dynamic configs for broker 1 are:\nDynamic configs for broker 2 are:", "Dynamic configs for broker 1 are:\n"),
    ],
)
def test_what_is_of_one_of_three_brokers_is_masked(printed: str, masked: str) -> None:
    side = ToolsSide("127.0.0.1:9092", Path("/f"), Path("/d"), (*MASKS, *MASKS_OF_SEVERAL))
    assert side.masked(Output("0", printed, "")).out == masked


def test_the_same_refusal_in_other_words_is_named_so() -> None:
    theirs = Output("1", "Error while executing topic command : broker 9 is unknown", "")
    assert _status(theirs, Output("1", "Error while executing topic command : there is one broker", "")) == "reworded"
    assert _status(theirs, Output("1", "Error while executing topic command : Cannot invoke x()", "")) == "DIFFERENT"
    error = "org.apache.kafka.common.errors."
    theirs = Output("1", f"{error}InvalidTopicException: a", "")
    assert _status(theirs, Output("1", f"{error}InvalidTopicException: b", "")) == "reworded"
    assert _status(theirs, Output("1", f"{error}InvalidRequestException: a", "")) == "DIFFERENT"


def test_an_accepted_difference_is_still_checked() -> None:
    accepted = Accepted("there are no share groups on this broker", "refused")
    assert _status(Output("0", "a", ""), Output("1", "refused", ""), accepted=accepted) == "accepted"
    assert _status(Output("0", "a", ""), Output("1", "crashed", ""), accepted=accepted) == "DIFFERENT"
    assert _status(Output("0", "a", ""), Output("0", "a", ""), accepted=accepted) == "DIFFERENT"


def test_what_is_accepted_of_one_version_is_compared_with_the_other() -> None:
    command = ToolCommand("kafka-topics --list", accepted=Accepted("3.9 does this in another way", "a", ("3.9.1",)))
    theirs, ours = Output("0", "b", ""), Output("0", "a", "")
    assert compare(command.of("3.9.1"), theirs, ours).status == "accepted"
    assert compare(command.of("4.3.0"), theirs, ours).status == "DIFFERENT"
    assert compare(command.of("4.3.0"), ours, ours).status == "same"


def test_a_program_is_skipped_where_this_machine_lacks_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run_program(ToolCommand("franz-go-version-guess"), [ToolsSide("127.0.0.1:1", tmp_path, tmp_path)] * 2)
    assert (result.status, "go is not on the PATH" in result.skipped) == ("SKIPPED", True)


def test_a_program_without_an_end_is_one_line_of_the_report(tmp_path: Path) -> None:
    assert output_of(["sleep", "60"], tmp_path, 0.1) == (NO_END, "no end within 0.1 s")


def test_a_tool_that_moved_has_its_class_of_each_version() -> None:
    classes = {version: TOOLS["kafka-configs"].main_class(version) for version in VERSIONS}
    assert classes == {
        "3.9.1": "kafka.admin.ConfigCommand",
        "4.3.0": "kafka.admin.ConfigCommand",
        "4.4.0": "org.apache.kafka.tools.ConfigCommand",
    }
    assert TOOLS["kafka-acls"].main_class("3.9.1") == "kafka.admin.AclCommand"
    assert TOOLS["kafka-acls"].main_class("4.3.0") == "org.apache.kafka.tools.AclCommand"
