"""The clients, how each one's environment is made, and how what they return on two brokers is compared."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coterie_conformance.clients.steps import EVERY_TOPIC_SETTING, GROUP, PARTITIONS, RECORDS, TOPIC, TRANSACTION
from coterie_conformance.differences.of_versions import SETTINGS_GONE_IN_4
from coterie_conformance.servers.kafka import CannotRun, cache_folder
from coterie_conformance.servers.programs import FRANZ_GO, go_program

LIMIT_S = 300.0
ENDED = "the script's end"
HERE = Path(__file__).parent


def script_words(version: str, brokers: int = 1) -> dict[str, Any]:
    """The standard input of a script in another language than Python, with what that Apache Kafka has. ``brokers``: of ours."""
    removed = SETTINGS_GONE_IN_4 if version.startswith("4.") else ()
    return {
        "topic": TOPIC,
        "group": GROUP,
        "transaction": TRANSACTION,
        "partitions": PARTITIONS,
        "records": RECORDS,
        "tooManyReplicas": max(3, brokers + 1),
        "consumerProtocol": version.startswith("4."),  # KIP-848, by default
        "settings": {name: value for name, value in EVERY_TOPIC_SETTING.items() if name not in removed},
    }


@dataclass(frozen=True, slots=True)
class Program:
    """A client with its script. ``packages`` are what pip, npm or go installs; a script is a module here, or a file for node or
    go, with files ``beside`` it. It runs beside these ``versions`` of Apache Kafka; the client needs ``node`` or newer."""

    name: str
    packages: tuple[str, ...]
    script: str
    versions: tuple[str, ...] = ("3.9.1",)  # the Python ones name the topic settings of 3.9
    beside: tuple[str, ...] = ()
    node: tuple[int, int] = (0, 0)


_BOTH = ("3.9.1", "4.3.0", "4.4.0")
PROGRAMS: tuple[Program, ...] = (
    Program("kafka-python 2.3", ("kafka-python==2.3.0",), "kafka_python"),
    Program("kafka-python 3.0", ("kafka-python==3.0.12",), "kafka_python"),
    Program("aiokafka", ("aiokafka==0.14.0",), "aiokafka_client"),
    Program("confluent-kafka", ("confluent-kafka==2.16.1",), "confluent_client"),
    Program("kafkajs", ("kafkajs@2.2.4",), "kafkajs_client.js"),
    # 1.35 is the last for Node 20.
    Program("platformatic-kafka", ("@platformatic/kafka@1.35.0",), "platformatic_client.js", _BOTH, node=(20, 19)),
    Program(
        "franz-go",
        (f"github.com/twmb/franz-go/pkg/kgo@{FRANZ_GO}", "github.com/twmb/franz-go/pkg/kadm@v1.19.0"),
        "franz_go_client.go",
        _BOTH,
        ("franz_go_groups.go", "steps.go"),
    ),
    Program("sarama", ("github.com/IBM/sarama@v1.61.1",), "sarama_client.go", _BOTH, ("sarama_groups.go", "steps.go")),
    Program(
        "kafka-go",
        ("github.com/segmentio/kafka-go@v0.4.51",),
        "kafka_go_client.go",
        _BOTH,
        ("kafka_go_groups.go", "steps.go"),
    ),
)


@dataclass(frozen=True, slots=True)
class ProgramDifference:
    """``path`` leads into what the step returned; ``reason`` is set for one that is accepted."""

    step: str
    path: str
    theirs: str
    ours: str
    reason: str = ""


SEVERAL_BROKERS = "three brokers are described where there was one, and what each of them leads or has"
_OF_BROKERS = re.compile(
    r"/(leader|isr|replica)s?(_?(id|node)s?)?(/|$)|/(brokers|nodes|coordinator|replicaassignment|replicationfactor)(/|$)"
    r"|^(log dirs|describe log dirs|list transactions|metadata/|the cluster/|find coordinators/|resources with settings/)"
    r"|^(cancel a reassignment|list reassignments)/",  # a reassignment to broker 1 is one where another broker leads
    re.I,
)
# Each run has its own: never compared, whatever the broker. By the name of the field, in small letters without underscores.
OWN = frozenset(
    """
    cluster clusterid topicid memberid consumerid logdir path host port clienthost timestamp lasttimestamp
    transactionstarttimems throttletimems throttletime usablebytes totalbytes partitionsize finalizedfeaturesepoch leaderepoch
    """.split()  # noqa: SIM905
)
# The fields that name an entry of a list.
NAMES = (
    "name",
    "config_names",
    "configName",
    "topic",
    "partition",
    "partition_index",
    "partitionIndex",
    "partitionId",
    "topicName",
    "Key",
    "Name",
    "Topic",
    "ID",
)
# (version of Apache Kafka or "" for all, a piece of the path, why the brokers may differ there)
ACCEPTED: tuple[tuple[str, str, str], ...] = (
    ("", "error_message", "each broker words its refusals; the codes are compared"),
    ("", "/ErrMessage/", "each broker words its refusals; the codes are compared"),
    ("", "/ErrorMessage/", "each broker words its refusals; the codes are compared"),
    ("", "memberAssignment", "the client assigns in the order in which metadata happens to list partitions"),
    ("", "features/", "this broker has no quorum, and finalizes the features that it has"),
    ("3.9.1", "authorized_operations/", "Kafka 4 has settings of groups, and names the operations on them"),
    ("3.9.1", "group with authorized operations/returned/5", "Kafka 4 has settings of groups, and operations on them"),
    ("3.9.1", "is_fenced", "DescribeCluster version 2: Kafka 4.0"),
    ("3.9.1", "is_cordoned", "DescribeLogDirs version 5: Kafka 4.3"),
    ("3.9.1", "list what has settings/", "ListConfigResources version 1: Kafka 4.1"),
    ("3.9.1", "resources with settings/", "ListConfigResources version 1: Kafka 4.1"),
    ("3.9.1", "list transactions by pattern/", "ListTransactions version 2: Kafka 4.1"),
    ("3.9.1", ": described/returned/5/", "DescribeGroups version 6: Kafka 4.0 reports a group that there is not"),
    ("3.9.1", "roundrobin: described/returned/4/", "Kafka 4 has settings of groups, and operations on them"),
    ("3.9.1", "list groups/returned/", "before Kafka 4 an empty group went with its last offset"),
    *(("4.", f"/{name}/", "a topic setting of Kafka 3, which Kafka 4 no longer has") for name in SETTINGS_GONE_IN_4),
    ("4.", "/message.timestamp.after.max.ms/", "an hour by default in Kafka 4"),
    ("4.", "/min.insync.replicas/", "Kafka 4 sets it for the cluster, since it has eligible leader replicas"),
    ("4.", "as 0.10.2.0/", "Kafka 4 no longer serves the requests of Kafka 0.10"),
)


def environment(program: Program) -> list[str]:
    """The command that runs the client's script, its packages installed the first time. Raises CannotRun."""
    if program.script.endswith(".go"):
        beside = [HERE / name for name in program.beside]
        return [str(go_program(HERE / program.script, *program.packages, beside=beside))]
    if program.script.endswith(".js"):
        _check_node(program)
    folder = (
        cache_folder()
        / "clients"
        / program.packages[0].replace("==", "-").lstrip("@").replace("/", "-").replace("@", "-")
    )
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        if program.script.endswith(".js"):
            install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *program.packages]
        else:
            venv.create(folder, with_pip=True)
            install = [str(python), "-m", "pip", "install", "--quiet", *program.packages]
        process = subprocess.run(install, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if process.returncode:
            raise CannotRun(f"{program.name} could not be installed: {process.stderr.strip().splitlines()[-1:]}")
        (folder / "complete").touch()
    if program.script.endswith(".js"):
        return ["node", str(HERE / program.script), str(folder / "node_modules")]
    return [str(python), "-m", f"coterie_conformance.clients.{program.script}"]


def _check_node(program: Program) -> None:
    """Raises CannotRun where there is no npm, or a node that the client does not run on."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        raise CannotRun("npm is not on the PATH; on Debian: apt-get install npm")
    printed = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    major, minor = (int(number) for number in printed.lstrip("v").split(".")[:2])
    if (major, minor) < program.node:
        oldest = ".".join(map(str, program.node))
        raise CannotRun(f"{program.name} needs node {oldest} or newer, and the one on the PATH is {printed}")


def run_script(command: list[str], address: str, version: str = "3.9.1", brokers: int = 1) -> list[dict[str, Any]]:
    """The output of a script on that broker: {step, returned} or {step, raised} each, the last one its end. ``version`` of
    Apache Kafka has the topic settings; ``brokers``: of ours."""
    process = subprocess.run(
        [*command, address],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        input=json.dumps(script_words(version, brokers)),
        timeout=LIMIT_S,
        check=False,
    )
    steps = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    last_words = process.stderr.strip().splitlines()[-1:] if process.returncode else []
    return [*steps, {"step": ENDED, "returned": [process.returncode, *last_words]}]


def compare(version: str, theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> list[ProgramDifference]:
    """The differences of a client's results on coterie and on that Apache Kafka, step by step."""
    differences: list[ProgramDifference] = []
    by_step = {step["step"]: step for step in ours}
    for step in theirs:
        name = step["step"]
        other = by_step.pop(name, {})
        for path, left, right in _differing(step, other, ""):
            differences.append(ProgramDifference(name, path, left, right, _reason(version, name + path)))
    differences += [ProgramDifference(name, "", "(no such step)", json.dumps(step)) for name, step in by_step.items()]
    return differences


def _reason(version: str, path: str) -> str:
    rows = ((why, piece) for where, piece, why in ACCEPTED if version.startswith(where))
    return next((why for why, piece in rows if piece in f"{path}/"), "")


def _differing(left: Any, right: Any, path: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            if key.replace("_", "").lower() not in OWN:
                yield from _differing(left.get(key, "(absent)"), right.get(key, "(absent)"), f"{path}/{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(_ordered(left)) == len(_ordered(right)):
        for number, (one, other) in enumerate(zip(_ordered(left), _ordered(right), strict=True)):
            yield from _differing(one, other, f"{path}/{number}")
    elif left != right:
        yield path, json.dumps(left), json.dumps(right)


def _ordered(values: list[Any]) -> list[Any]:
    """In the order of what names each, since brokers list things as they like; without the brokers' own topics."""
    named = [(_name(value), value) for value in values]
    if any(name is None for name, _ in named):
        return values
    return [value for name, value in sorted(named, key=lambda pair: str(pair[0])) if not str(name).startswith("__")]


def _name(value: Any) -> str | int | None:
    if isinstance(value, str):
        return value
    fields = value if isinstance(value, dict) else {}
    return next((fields[key] for key in NAMES if isinstance(fields.get(key), str | int)), None)


def run_client(
    program: Program,
    version: str,
    theirs: str,
    ours: str,
    report: Callable[[str, str], None],
    *,
    brokers: int = 1,
) -> dict[str, int]:
    """A client on an Apache Kafka of that version and on coterie, both new: how many steps, accepted differences and others.
    ``brokers``: of ours. Raises CannotRun."""
    command = environment(program)
    steps = run_script(command, theirs, version, brokers)
    differences = compare(version, steps, run_script(command, ours, version, brokers))
    if brokers > 1:
        differences = [replace(d, reason=SEVERAL_BROKERS) if is_of_several_brokers(d) else d for d in differences]
    wrong = [d for d in differences if not d.reason]
    if not is_whole(steps):
        wrong.append(ProgramDifference(ENDED, "", json.dumps(steps[-1]), ""))
    for d in wrong:
        report(f"{program.name}: {d.step}{d.path}", f"Apache Kafka {d.theirs}, coterie {d.ours}")
    if not wrong:
        report(f"{program.name}, {len(steps)} steps", "")
    return {"steps": len(steps), "accepted": sum(bool(d.reason) for d in differences), "wrong": len(wrong)}


def is_of_several_brokers(difference: ProgramDifference) -> bool:
    """Whether it is about which broker leads or has something."""
    return _OF_BROKERS.search(f"{difference.step}{difference.path}") is not None


def is_whole(steps: list[dict[str, Any]]) -> bool:
    """Whether the script came to its end."""
    return len(steps) > 1 and steps[-1] == {"step": ENDED, "returned": [0]}
