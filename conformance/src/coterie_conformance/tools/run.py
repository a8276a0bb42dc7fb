"""Apache Kafka's own command-line tools on Apache Kafka and on coterie: each command's output and exit code, compared.

One JVM runs the tools (`Tools.java`), the same command on both brokers at once. The commands and what may differ are data:
`tools_commands` and `tools_table`.
"""

from __future__ import annotations

import base64
import difflib
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from coterie.client.connection.blocking_socket import BrokerSocket
from coterie.client.errors import check
from coterie.text.addresses import format_address
from coterie.wire.messages.settings.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from coterie_conformance.groups.differential import coterie_broker
from coterie_conformance.servers.kafka import CannotRun, jars, running
from coterie_conformance.tools.commands import COMMANDS
from coterie_conformance.tools.programs import PROGRAMS
from coterie_conformance.tools.state import prepared
from coterie_conformance.tools.table import FILES, LEFT_OUT, NEW, OF_SEVERAL, OLD, TOOLS, Compare, ToolCommand

# Both brokers are started with these.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "node.id": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "auto.create.topics.enable": "false",
}
SHARE_SETTINGS = {  # of versions with share groups
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
}
ATTEMPTS = 3  # of a command that only reads: Kafka's metadata follows a change after the change is answered
ATTEMPT_PAUSE_S = 0.5
_READING = ("--describe", "--list", "describe", "list", "--verify", "kafka-get-offsets")

# Texts that differ on every run, in the order in which they are masked: (name, pattern, mask).
MASKS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("stack frames", re.compile(r"(?m)^\s+(at .*|\.\.\. \d+ more)\n?"), ""),
    ("member ids", re.compile(r"\b([\w.-]+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), r"\1-{uuid}"),
    ("a commit's topic id", re.compile(r',"topicId":"[A-Za-z0-9_-]{22}"'), ""),  # a tagged field since Kafka 4.1
    ("transaction version 2", re.compile(r'"(previousProducerId|clientTransactionVersion)":-?\d+,?'), ""),
    ("unique ids", re.compile(r"(?<![\w-])(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{21}[AQgw](?![\w-])"), "{id}"),
    ("the logger's start", re.compile(r"(?m)^SLF4J: .*\n?"), ""),
    ("coterie's journal", re.compile(r"(?m)^.*__coterie_journal.*\n?"), ""),
    ("ports", re.compile(r"\b(127\.0\.0\.1|localhost)[:\s]+\d{4,5}\b"), "{address}"),
    ("times", re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,:]\d+)?(Z|[+-]\d\d:?\d\d)?"), "{time}"),
    ("timestamps in ms", re.compile(r"\b1[789]\d{11}\b"), "{time_ms}"),
    ("clients' numbers", re.compile(r"\b(adminclient|consumer|producer|console-consumer)-\d+"), r"\1-N"),
    ("columns' widths", re.compile(r"[ \t]+"), " "),
    ("transactions' ages", re.compile(r"((?:Ongoing|Complete\w+) \d+ \{time_ms\}) \d+"), r"\1 {ms}"),
    ("ends of lines", re.compile(r" *\r?\n"), "\n"),
)
# Where ours has several brokers: which of them have or lead something, and where.
MASKS_OF_SEVERAL: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("replication factors", re.compile(r"\bReplicationFactor: \d+"), "ReplicationFactor: N"),
    ("replicas", re.compile(r"\b(Replicas|Isr): [\d,]+"), r"\1: N"),
    ("replicas in JSON", re.compile(r'("replicas"|"log_dirs"):\[[^\]]*\]'), r"\1:[]"),
    ("throttled brokers", re.compile(r"\bon brokers? [\d,]+"), "on brokers N"),
    ("existing brokers", re.compile(r"(Current existent brokers): [\d,]+"), r"\1: N"),
    ("log directories", re.compile(r'"logDir":"[^"]*"'), '"logDir":""'),
    ("the others", re.compile(r"(?m)^(Dynamic configs for broker [23] are:|[23] \{address\} .*)\n?"), ""),
)
# The sentence of a refusal, which is the broker's own; what counts is that there is one, and the error's class.
_SENTENCES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(\b[\w.]+\.errors\.\w+Exception):.*"), r"\1: {sentence}"),
    (re.compile(r"^(Error while executing [\w ]+ command) ?: .*"), r"\1: {sentence}"),
    (re.compile(r"^((?:Could|Can) not \w+ [\w.]+( to \w+)?\.) .*"), r"\1 {sentence}"),  # kafka-features
    (re.compile(r"^(\S+ Error): .*"), r"\1: {sentence}"),  # kafka-share-groups
    (re.compile(r"^(\[.*\] ERROR .* failed): .*"), r"\1: {sentence}"),
)
_DEFECT = re.compile(r"NullPointerException|Cannot invoke|ClassCastException|IndexOutOfBounds|does not support|Timeout")
_NUMBER = re.compile(r"-?\b\d+([.,]\d+)*\b")


@dataclass(frozen=True, slots=True)
class Output:
    """A command's output and end; ``exit_code`` is "-" where it was still running at its limit."""

    exit_code: str
    out: str
    err: str

    def lines(self, command: ToolCommand) -> list[str]:
        """The lines that are compared, in that order, the exit code first."""
        lines = [line.strip() for line in f"{self.out}\n{self.err}".split("\n") if line.strip()]
        patterns = [left_out.pattern for left_out in LEFT_OUT if re.match(left_out.commands, command.name)]
        lines = [line for line in lines if not any(re.search(pattern, line) for pattern in patterns)]
        if Compare.NUMBERS_MASKED in command.compare:
            lines = [_NUMBER.sub("N", line) for line in lines]
        if Compare.ANY_ORDER in command.compare:
            lines.sort()
        return [f"exit {self.exit_code}", *lines]


@dataclass(frozen=True, slots=True)
class ToolsSide:
    """A broker: its address, the folder of the commands' files, and its log folder; ``masks``: what is not compared."""

    server: str
    folder: Path
    data: Path
    masks: tuple[tuple[str, re.Pattern[str], str], ...] = MASKS

    def arguments(self, command: ToolCommand, version: str) -> list[str]:
        """The command's words for this side: its address and folders are put in."""
        given = {"{server}": self.server, "{folder}": str(self.folder), "{data}": str(self.data)}
        tool = TOOLS[command.tool]
        address = [tool.server_option, self.server] if tool.server_option else []
        words = [*command.arguments, *address] if tool.server_last else [*address, *command.arguments]
        for name, value in given.items():
            words = [word.replace(name, value) for word in words]
        return words

    def masked(self, output: Output) -> Output:
        return Output(output.exit_code, self._masked(output.out), self._masked(output.err))

    def _masked(self, text: str) -> str:
        text = text.replace(str(self.data), "{data}").replace(str(self.folder), "{folder}")
        for _, pattern, mask in self.masks:
            text = pattern.sub(mask, text)
        return text


class JavaTools:
    """The tools of one version in a JVM; needs a JDK, since it starts a source file. Raises CannotRun."""

    def __init__(self, version: str) -> None:
        self.version = version
        source = Path(__file__).with_name("Tools.java")
        options = ["-Xmx1g", "-Duser.timezone=UTC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command = ["java", *options, "-cp", f"{jars(version)}/*", str(source)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, command: ToolCommand, sides: Sequence[ToolsSide]) -> list[Output]:
        """The command on all sides at once."""
        main = TOOLS[command.tool].main_class(self.version)
        arguments = [side.arguments(command, self.version) for side in sides]
        outputs = self.execute(main, arguments, command.stdin, command.limit_s)
        return [side.masked(output) for side, output in zip(sides, outputs, strict=True)]

    def execute(self, main: str, calls: Sequence[Sequence[str]], text: str = "", limit_s: float = 30.0) -> list[Output]:
        """The tool of that class with each of these arguments, all at once; ``text`` is its standard input."""
        stdin, stdout = self._streams()
        for number, arguments in enumerate(calls):
            words = map(_encoded, (text, *arguments))
            stdin.write(" ".join([str(number), str(int(limit_s * 1000)), main, *words]) + "\n")
        stdin.flush()
        outputs: dict[int, Output] = {}
        while len(outputs) < len(calls):
            line = stdout.readline()
            assert line, f"the tools' JVM ended with {main}; is a JDK (not only a JRE) on the PATH?"
            number_, exit_code, out, err = line.split()
            outputs[int(number_)] = Output(exit_code, _decoded(out), _decoded(err))
        return [outputs[number] for number in range(len(calls))]

    def _streams(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def close(self) -> None:
        self._streams()[0].close()
        self._process.wait(20)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode() if text else "-"


def _decoded(word: str) -> str:
    return "" if word == "-" else base64.b64decode(word).decode(errors="replace")


# -- comparing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    """A command's comparison: ``difference`` is empty where both print the same. ``accepted`` is the reason where the
    difference is a known one; ``reworded`` where both refuse with the same error, in other words; ``skipped`` names what
    the command needs and this machine lacks."""

    command: ToolCommand
    difference: str
    accepted: str = ""
    reworded: bool = False
    skipped: str = ""

    @property
    def status(self) -> str:
        """One word for the report."""
        if self.skipped:
            return "SKIPPED"
        if not self.difference:
            return "same"
        if self.accepted:
            return "accepted"
        return "reworded" if self.reworded else "DIFFERENT"


def compare(command: ToolCommand, theirs: Output, ours: Output) -> Result:
    """The masked outputs of Apache Kafka's side and of coterie's."""
    expected, actual = theirs.lines(command), ours.lines(command)
    if Compare.SHARED_KEYS in command.compare:
        keys = {_key(line) for line in expected} & {_key(line) for line in actual}
        expected = [line for line in expected if _key(line) in keys]
        actual = [line for line in actual if _key(line) in keys]
    difference = "" if expected == actual else _difference(expected, actual)
    if command.accepted is None:
        same_refusal = _without_sentences(expected) == _without_sentences(actual)
        return Result(command, difference, reworded=same_refusal and not _DEFECT.search("\n".join(actual)))
    if not difference:
        return Result(command, "both print the same, so that the accepted difference is out of date")
    if not re.search(command.accepted.ours, "\n".join(actual)):
        return Result(command, f"not what is accepted ({command.accepted.ours}):\n{difference}")
    return Result(command, difference, command.accepted.reason)


def _without_sentences(lines: list[str]) -> list[str]:
    for pattern, mask in _SENTENCES:
        lines = [pattern.sub(mask, line) for line in lines]
    return lines


def _key(line: str) -> str:
    return re.split(r"[ =]", line, maxsplit=1)[0]


def _difference(expected: list[str], actual: list[str]) -> str:
    """Kafka's lines after "-", coterie's after "+"."""
    lines = difflib.unified_diff(expected, actual, n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


# -- running -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ToolsReport:
    """The results of one version's commands, and how long they took."""

    version: str
    seconds: float = 0.0
    results: list[Result] = field(default_factory=list)


def run_tools(version: str, folder: Path, on_result: Callable[[Result], None], *, brokers: int = 1) -> ToolsReport:
    """Starts both sides and runs every command of that version on both; ``brokers`` on ours. Raises CannotRun."""
    started, report = time.monotonic(), ToolsReport(version)
    with ExitStack() as stack:
        settings = SETTINGS if version in OLD else SETTINGS | SHARE_SETTINGS
        kafka = stack.enter_context(running(version, folder / "kafka", settings))
        coterie = stack.enter_context(coterie_broker(settings, folder / "coterie" / "data", brokers))
        if version in OLD:
            _set_transaction_version(coterie, 0)
        masks = MASKS if brokers == 1 else (*MASKS, *MASKS_OF_SEVERAL)
        sides = [side_of(kafka, folder / "kafka", masks), side_of(coterie, folder / "coterie", masks)]
        for side in sides:
            stack.enter_context(prepared(side.server, streams=version in NEW))
        java = JavaTools(version)
        stack.callback(java.close)
        for command in COMMANDS:
            reads_files = "{data}" in command.line and brokers > 1  # of ours, which are in memory then
            if version in command.versions and not reads_files:
                result = _run_one(java, command.of(version), sides)
                reason = OF_SEVERAL.get(command.name, "") if brokers > 1 else ""
                if reason and result.status == "DIFFERENT":
                    result = replace(result, accepted=reason)
                report.results.append(result)
                on_result(result)
    report.seconds = time.monotonic() - started
    return report


def _set_transaction_version(address: tuple[str, int], level: int) -> None:
    """The level with which Kafka of that age forms a cluster. Raises KafkaError."""
    broker = BrokerSocket(*address)
    update = FeatureUpdateKey("transaction.version", level, upgrade_type=2)
    check(broker.request(UpdateFeaturesRequest(feature_updates=[update])).error_code)
    broker.close()


def side_of(address: tuple[str, int], folder: Path, masks: tuple[tuple[str, re.Pattern[str], str], ...]) -> ToolsSide:
    """The broker at that address, with the files of the commands in a folder that need not exist."""
    files = folder / "files"
    files.mkdir(parents=True)
    for name, text in FILES.items():
        (files / name).write_text(text)
    return ToolsSide(format_address(*address), files, folder / "data", masks)


def _run_one(java: JavaTools, command: ToolCommand, sides: list[ToolsSide]) -> Result:
    if command.tool in PROGRAMS:
        return run_program(command, sides)
    reads = any(word in command.line.split() for word in _READING)
    for attempt in range(ATTEMPTS if reads else 1):
        if attempt:
            time.sleep(ATTEMPT_PAUSE_S)
        theirs, ours = java.run(command, sides)
        result = compare(command, theirs, ours)
        if result.status != "DIFFERENT":
            break
    return result


def run_program(command: ToolCommand, sides: list[ToolsSide]) -> Result:
    """The program on all sides at once, compared; skipped where this machine lacks what it needs."""

    def run(side: ToolsSide) -> Output:
        exit_code, out = PROGRAMS[command.tool](side.server, side.folder / command.tool)
        return side.masked(Output(str(exit_code), out, ""))

    try:
        with ThreadPoolExecutor(len(sides)) as pool:
            theirs, ours = pool.map(run, sides)
    except CannotRun as reason:
        return Result(command, "", skipped=str(reason))
    return compare(command, theirs, ours)
