"""Every command of ours that talks to a broker, run as a user runs it, on any broker: the table has the output of each,
and the first Apache Kafka that it works on. On an older one it must end with the sentence for that case."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

OLDEST = "0.11"
COTERIE = "1000"  # as a version: whatever Apache Kafka has, and what only this broker has
LIMIT_S = 120.0
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class CommandCase:
    """One row: what is typed, and a pattern that the output must hold.

    Below Kafka ``since`` the command must end with exit code 1 and ``refusal`` in what it prints; ``code`` is the exit code
    otherwise.
    """

    line: str
    prints: str
    stdin: str = ""
    since: str = OLDEST
    refusal: str = ""
    code: int = 0


NEEDS_CREATE_PARTITIONS = "does not serve CreatePartitions, which Apache Kafka has from 1.0 on"
NEEDS_ELECTIONS = "does not serve ElectLeaders, which Apache Kafka has from 2.2 on"
NEEDS_REASSIGNMENTS = "PartitionReassignments, which Apache Kafka has from 2.4 on"
NEEDS_ZSTD = "zstd needs Produce version 7, which Apache Kafka has from 2.1 on"
NEEDS_STATIC = "group.instance.id needs JoinGroup version 5, which Apache Kafka has from 2.3 on"
NEEDS_DELETE_GROUPS = "does not serve DeleteGroups, which Apache Kafka has from 1.1 on"
COTERIE_ONLY = "this broker is not coterie and has no such request"

# In order: each row builds on those before it.
COMMANDS: tuple[CommandCase, ...] = (
    CommandCase("topics create orders --partitions 3 --config retention.ms=86400000", "^created orders$"),
    CommandCase("topics create few", "^created few$"),
    CommandCase("topics list --json", r'"topic": "orders",\s+"partitions": 3'),
    CommandCase("topics describe orders", r"(?m)^retention.ms=86400000$"),
    CommandCase("topics describe orders --all", r"(?m)^cleanup.policy=delete$"),
    CommandCase("topics describe orders --json", r'"partition": 2,\s+"leader": \d+,\s+"start": 0,\s+"end": 0'),
    CommandCase("topics describe orders --json", r'"replicas": \[\s+1\s+\],\s+"isr": \[\s+1\s+\],\s+"offline": \[\]'),
    CommandCase("topics create single --replication-factor 1 --partitions 2", "^created single$"),
    CommandCase("topics create triple --replication-factor 3", "INVALID_REPLICATION_FACTOR", code=1),
    CommandCase("topics elect orders", r"(?m)^orders +2 +leads already *$", since="2.2", refusal=NEEDS_ELECTIONS),
    CommandCase("topics elect", "^no partition needs an election", since="2.2", refusal=NEEDS_ELECTIONS),
    CommandCase(
        "topics elect orders --unclean", r"(?m)^orders +0 +has a leader *$", since="2.4", refusal=NEEDS_ELECTIONS
    ),
    CommandCase("topics reassign orders --brokers 1 --dry-run", r"(?m)^orders +1 +1 +1 *$"),
    CommandCase(
        "topics reassign orders --brokers 1", r"(?m)^orders +1 +1 +1 *$", since="2.4", refusal=NEEDS_REASSIGNMENTS
    ),
    CommandCase(
        "topics reassign orders --brokers 7",
        "INVALID_REPLICA_ASSIGNMENT",
        code=1,
        since="2.4",
        refusal=NEEDS_REASSIGNMENTS,
    ),
    CommandCase("topics reassign --list", "^no reassignment", since="2.4", refusal=NEEDS_REASSIGNMENTS),
    CommandCase("topics describe nothing", "UNKNOWN_TOPIC_OR_PARTITION", code=1),
    CommandCase("cluster describe", r"(?m)^1 +\S+ +- +controller +[1-9]\d* +[1-9]\d* +0 *$"),
    CommandCase("cluster describe --json", r'"under_replicated": 0,\s+"leaderless": 0\s'),
    CommandCase("produce orders --key-separator :", "^3 records acknowledged", stdin="a:1\nb:2\nc:3\n"),
    CommandCase("produce orders --compression gzip", "^2 records acknowledged", stdin="4\n5\n"),
    CommandCase(
        "produce orders --compression zstd", "^1 record acknowledged", stdin="6\n", since="2.1", refusal=NEEDS_ZSTD
    ),
    CommandCase("consume orders --from-beginning --max-messages 5 --json", r'"key": "c",\s+"value": "3"'),
    CommandCase("consume orders --from-beginning --max-messages 5 --group shop", "(?m)^[1-6]$"),
    CommandCase(
        "consume orders --from-beginning --max-messages 5 --group careful --set isolation.level=read_committed",
        "(?m)^[1-6]$",
    ),
    CommandCase(
        "consume orders --from-beginning --max-messages 5 --group static --instance-id one",
        "(?m)^[1-6]$",
        since="2.3",
        refusal=NEEDS_STATIC,
    ),
    CommandCase("groups list", r"(?m)^shop +Empty +classic"),
    CommandCase("groups list --state PreparingRebalance", "^there are no groups"),
    CommandCase("groups list --state Empty --json", r'"group": "shop",\s+"state": "Empty"'),
    CommandCase("groups describe shop", r"(?s)^shop: Empty.*orders +0 .*total lag: [01]"),
    CommandCase("groups describe shop --json", r'"state": "Empty"'),
    CommandCase("groups lint shop", "its members are of type|the group is Empty", code=1),
    CommandCase("groups history shop", "journal has no events of group shop|GENERATION"),
    CommandCase("observe --from-beginning --for 3 --json", '"group": ?"shop"'),
    CommandCase("groups why shop", "generation|the group has no members"),
    CommandCase("clients", "^no client pushes metrics|CLIENT", since=COTERIE, refusal=COTERIE_ONLY),
    CommandCase("groups watch shop --times 1", "generation|the group has no members"),
    CommandCase("groups reset shop --to earliest --dry-run", r"(?m)^orders +0 +\d+ +0 *$"),
    CommandCase("groups reset shop --to earliest", r"(?m)^orders +0 +\d+ +0 *$"),
    CommandCase("groups describe shop", r"(?m)^total lag: [56]( \(|$)"),
    CommandCase("groups reset shop --topic orders --to 2026-01-01T00:00", r"(?m)^orders +2 +0 +\d+ *$"),
    CommandCase("groups reset shop --as-of 2999-01-01T00:00", r"(?m)^orders +1 +\d+ +0 *$"),
    CommandCase("groups reset nobody --as-of 2026-01-01T00:00", "nobody had committed nothing by then"),
    CommandCase("groups delete-offsets shop --topic orders --dry-run", r"(?m)^orders +0 +\d+ *$"),
    CommandCase(
        "topics grow orders --partitions 4", "^orders has 4 partitions$", since="1.0", refusal=NEEDS_CREATE_PARTITIONS
    ),
    CommandCase("groups delete shop", "^deleted shop$", since="1.1", refusal=NEEDS_DELETE_GROUPS),
    CommandCase("groups delete nobody", "GROUP_ID_NOT_FOUND", since="1.1", refusal=NEEDS_DELETE_GROUPS, code=1),
    CommandCase("topics delete few", "^deleted few$"),
    CommandCase("topics delete nothing", "UNKNOWN_TOPIC_OR_PARTITION", code=1),
)


def is_older(version: str, than: str) -> bool:
    """Whether one version of Kafka, such as 0.11.0.3, comes before another, such as 1.1."""
    return _numbers(version) < _numbers(than)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def wrong(command: CommandCase, version: str, code: int, output: str) -> str:
    """The problem of a command's end on that version of Kafka ("" without one); ``output`` is both streams'."""
    text = output.strip()
    if TRACEBACK in output:
        return f"a traceback: {text}"
    refused = is_older(version, command.since)
    if refused and (code != 1 or command.refusal not in " ".join(output.split())):
        return f"exit code {code}, wanted 1 and {command.refusal!r}: {text}"
    if not refused and (code != command.code or re.search(command.prints, text) is None):
        return f"exit code {code}, wanted {command.code} and {command.prints!r}: {text}"
    return ""


def run_commands(
    address: str,
    version: str,
    report: Callable[[str, str], None],
    commands: Sequence[CommandCase] = COMMANDS,
) -> dict[str, bool]:
    """Each command with whether it was right; ``report`` is called with it and the problem."""
    environment = {**os.environ, "COTERIE_BOOTSTRAP_SERVER": address}
    results: dict[str, bool] = {}
    for number, command in enumerate(commands, 1):
        process = subprocess.run(
            [sys.executable, "-m", "coterie", *command.line.split()],
            input=command.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            timeout=LIMIT_S,
            check=False,
        )
        failure = wrong(command, version, process.returncode, process.stdout)
        name = f"{number} coterie {command.line}"
        results[name] = not failure
        report(name, failure)
    return results
