"""What a newcomer types: values that do not fit each other, files of another kind, names of nothing. Each is a sentence that
says what to do, and nothing is done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner

from coterie.broker.settings import server_properties
from coterie.cli import main
from coterie.testing import LocalBroker
from tests.cli.test_every_command import Ended, ended

WRONG = [
    ("consume orders --streams 2", "--streams goes with --zookeeper."),
    ("consume orders --instance-id one", "--instance-id goes with --group."),
    ("consume orders --group g --zookeeper nowhere", "must be HOST:PORT[,HOST:PORT...][/PATH], not 'nowhere'."),
    ("groups migrate g --zookeeper :2181", "must be HOST:PORT[,HOST:PORT...][/PATH], not ':2181'."),
    # Options of Apache Kafka's own tools.
    ("consume --topic orders", "'--topic'; the topic is an argument: coterie consume TOPIC."),
    ("consume orders --consumer-property a=b", "'--consumer-property'; settings go with --set KEY=VALUE."),
    ("consume orders --property print.key=true", "--json shows keys, headers, partitions and offsets."),
    ("produce orders --producer.config x", "a properties file goes with --command-config FILE."),
    ("produce orders --broker-list h:1", "the broker is --bootstrap-server HOST:PORT."),
    ("topics --create --topic x", "'--create'; it is a command: coterie topics create."),
    ("groups --describe --group g", "'--describe'; it is a command: coterie groups describe."),
    ("groups describe --group g", "'--group'; the group is an argument: coterie groups describe GROUP."),
    ("groups reset g --to-earliest", "where to go is coterie groups reset GROUP --to earliest,"),
    ("groups reset-offsets g", "has no command 'reset-offsets'. Did you mean reset?"),
    ("broker --memory --port 9093", "the address is --listen HOST:PORT."),
    ("topics list -b :9092", "must be HOST:PORT[,HOST:PORT...], not ':9092'."),
    ("groups list --state stabel", "There is no state 'stabel'; there are Unknown, PreparingRebalance,"),
    ("broker --memory --data x", "Give either --data or --memory"),
    ("broker --memory --set num.partitions", "--set takes KEY=VALUE, not 'num.partitions'."),
    ("broker --memory --set =3", "--set takes KEY=VALUE, not '=3'."),
    ("broker --memory --http-name proxy", "--http-name goes with --http."),
    ("broker --memory --set num.partition=3", "did you mean num.partitions?"),
    ("broker --memory --set num.partitions=many", "num.partitions must be"),
    ("broker --memory --set num.partitions=0", "num.partitions must be"),
    ("broker --memory --set advertised.listeners=SSL://h:1", "advertised.listeners has none of protocol PLAINTEXT"),
    ("broker --memory --set group.consumer.assignors=", "group.consumer.assignors must name at least one assignor"),
    ("cluster start --data {config}.d --set num.partitions=0", "num.partitions must be"),
    (
        "cluster start --data {config}.d --set group.consumer.assignors=",
        "group.consumer.assignors must name at least one",
    ),
    ("produce orders --set acks", "--set takes KEY=VALUE, not 'acks'."),
    ("produce orders --set acks=7", "acks must be"),
    ("produce orders --key-separator=", "--key-separator must not be empty; leave it out for records without keys."),
    ("produce orders --set linger.ms=soon", "linger.ms must be"),
    ("consume orders --set session.timeout=1", "did you mean session.timeout.ms?"),
    ("consume orders --group g --set session.timeout.ms=10", "heartbeat.interval.ms (3000) must be lower than"),
    (
        "consume orders --group g --zookeeper h:1 --set zookeeper.session.timeout.ms=x",
        "zookeeper.session.timeout.ms must",
    ),
    ("consume orders --zookeeper h:1", "--zookeeper needs --group, and has no static members."),
    (
        "consume orders --group g --instance-id one --zookeeper h:1",
        "--zookeeper needs --group, and has no static members.",
    ),
    (
        "consume orders --group g --zookeeper h:1 --command-config {config}",
        "--command-config does not go with --zookeeper:",
    ),
    ("pipeline table orders --group g --out x --kafka linger.ms=soon", "linger.ms must be"),
    ("pipeline table orders --group g --out x --master foo", "must be local[*], yarn, spark://HOST:PORT,"),
    ("lab study --out x --spark local[*] --processes 2", "--processes is of this machine's cores; leave it out with"),
    ("lab study --out x --spark foo", "must be local[*], yarn, spark://HOST:PORT,"),
]
READS_A_HISTORY = [
    "pipeline as-of crew",
    "pipeline report crew --out x",
    "pipeline export --format delta --out x",
    "pipeline what-if --group crew --out x",
    "groups reset crew --as-of 2026-01-01",
]


@pytest.mark.parametrize(("line", "sentence"), WRONG)
def test_a_value_that_does_not_fit(line: str, sentence: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("client.id=one\n")
    end = ended(*line.format(config=config).split())
    assert (end.code, sentence in end.sentence) == (2, True), end


@pytest.mark.parametrize("line", READS_A_HISTORY)
def test_a_folder_without_a_history(line: str, tmp_path: Path) -> None:
    end = ended(*line.split(), "--history", str(tmp_path))
    command = f"make one with `coterie pipeline history --out {tmp_path}`."
    assert (end.code, f"there is no history in {tmp_path}; {command}" in end.sentence) == (2, True), end


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[4, 2]", "yarn", "spark://h:7077", "k8s://h", "sc://h:1"]
)
def test_a_spark_master(master: str, tmp_path: Path) -> None:
    end = ended("pipeline", "what-if", "--out", str(tmp_path), "--master", master, "--history", str(tmp_path))
    assert "there is no history" in end.sentence, end


def test_a_folder_without_logs(tmp_path: Path) -> None:
    (tmp_path / "notes.log").write_text("no record")
    for words in (("log", "check"), ("groups", "dump")):
        end = ended(*words, str(tmp_path))
        assert (end.code, re.search("name (the|a) data folder", end.sentence) is not None) == (1, True), end


@pytest.mark.parametrize(
    "content",
    [b"short", b"a long text " * 20, bytes(300), b"".join(bytes([0, 0, n, 0, 0, 0, 0, 99]) for n in range(90))],
    ids=["short", "long", "zeros", "index"],
)
def test_a_file_that_is_no_segment(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    end = ended("groups", "dump", str(path))
    assert (end.code, end.output) == (
        1,
        f"Error: {path} has no record batch at byte 0; name a segment of __consumer_offsets, or a data folder\n",
    )


def test_an_empty_segment_has_no_records(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").touch()
    assert ended("groups", "dump", str(tmp_path / f"{0:020}.log")) == Ended(0, "")


def test_a_folder_without_offsets_is_refused_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(master: str, *, short: bool) -> NoReturn:
        pytest.fail("Spark was started")

    monkeypatch.setattr("coterie.pipeline.session.make_session", started)
    (tmp_path / "__consumer_offsets-0").mkdir()  # without a segment
    end = ended("pipeline", "history", "--from-log", str(tmp_path), "--out", str(tmp_path / "out"))
    sentence = f"there is no folder __consumer_offsets-N with a segment in {tmp_path}; give a broker's data folder."
    assert (end.code, sentence in end.sentence, (tmp_path / "out").exists()) == (2, True, False), end


def test_unknown_settings_of_a_file_are_counted_after_ten() -> None:
    warning = server_properties({f"no.such.setting.{n:02}": "" for n in range(30)}).warning()
    assert warning.endswith("no.such.setting.09 and 20 more")


# -- at a broker --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as one:
        one.create_topic("orders")
        yield one


def requested(broker: LocalBroker, line: str, stdin: str = "") -> Ended:
    environment = {"COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers}
    result = CliRunner(env=environment).invoke(main, line.split(), input=stdin)
    return Ended(result.exit_code, result.output)


NO_GROUP = "Error: GROUP_ID_NOT_FOUND: .*[^.]; `coterie groups list` prints the groups"
NO_TOPIC = "Error: UNKNOWN_TOPIC_OR_PARTITION: topic none: this broker has no such topic or partition"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        *((f"groups {command} none", NO_GROUP) for command in ("describe", "why", "watch", "lint", "delete")),
        ("topics describe none", NO_TOPIC),
        ("topics delete none", NO_TOPIC),
        ("topics grow none --partitions 3", NO_TOPIC),
        ("topics create ..", "Error: INVALID_TOPIC_EXCEPTION: '..' is not a topic name: .+, other than '.' and '..'"),
        ("topics elect none", NO_TOPIC),
        ("groups reset crew --to earliest --topic none --topic orders", NO_TOPIC),
        ("groups reset crew --to earliest", "Error: crew has no committed offsets; name the topics with --topic"),
        ("consume a@b", "Error: INVALID_TOPIC_EXCEPTION: topic a@b: .+"),
    ],
)
def test_a_name_of_nothing(broker: LocalBroker, line: str, sentence: str) -> None:
    end = requested(broker, line)
    assert (end.code, re.fullmatch(sentence, end.sentence) is not None) == (1, True), end


def test_a_topic_with_a_wrong_name_and_a_record_too_large(broker: LocalBroker) -> None:
    assert re.match("Error: INVALID_TOPIC_EXCEPTION: topic a@b: .+", requested(broker, "produce a@b", "x").sentence)
    end = requested(broker, "produce orders --set max.request.size=200", "x" * 300)
    assert (end.code, "is larger than max.request.size, 200: raise it" in end.sentence) == (1, True), end


def test_a_producer_setting(broker: LocalBroker) -> None:
    end = requested(broker, "produce orders --set acks=1 --set enable.idempotence=false --set linger.ms=0", "x\n")
    assert (end.code, end.output) == (0, "1 record acknowledged\n")


def test_a_table_has_no_spaces_at_the_end_of_a_line(broker: LocalBroker) -> None:
    lines = requested(broker, "topics list").output.splitlines()
    assert len(lines) == 2
    assert [line.rstrip() for line in lines] == lines
