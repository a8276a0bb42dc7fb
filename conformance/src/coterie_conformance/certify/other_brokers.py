"""The scoreboard of docs/certify: brokers that people test against, started here and certified beside the newest recording.

`python -m coterie_conformance.certify.other_brokers [NAME...]` writes a page for each and prints the rows of the table.
"""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import version as version_of
from pathlib import Path

from coterie import __version__
from coterie.certify.page import as_markdown
from coterie.certify.recording import load, recorded_versions
from coterie.certify.replay import HOLDS, Certificate, certify
from coterie.text.addresses import parse_address
from coterie_conformance.groups.differential import coterie_broker
from coterie_conformance.servers.kafka import end
from coterie_conformance.servers.programs import NAME, kfake_program

Address = tuple[str, int]
PAGES = Path("docs/certify")


@dataclass(frozen=True, slots=True)
class OtherBroker:
    """``title`` names the broker with its version and date; ``started`` runs it for the length of a with-block. It raises
    CannotRun."""

    title: str
    started: Callable[[], AbstractContextManager[Address]]


@contextmanager
def _printing_its_address(*command: str) -> Iterator[Address]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield parse_address(process.stdout.readline().decode().strip())
    finally:
        end([process])


BROKERS: dict[str, OtherBroker] = {
    "coterie": OtherBroker(f"coterie {__version__}", lambda: coterie_broker({"group.initial.rebalance.delay.ms": "0"})),
    "kfake": OtherBroker(f"{NAME} (franz-go)", lambda: _printing_its_address(str(kfake_program()))),
    "librdkafka": OtherBroker(
        f"librdkafka's mock cluster (confluent-kafka {version_of('confluent-kafka')})",
        lambda: _printing_its_address(sys.executable, "-m", "coterie_conformance.certify.mock_cluster"),
    ),
}


def certified(name: str) -> Certificate:
    """Starts the broker and asks it everything. Raises CannotRun, CannotCertify."""
    recording = load(recorded_versions()[-1])
    with BROKERS[name].started() as address:
        return asyncio.run(certify(recording, address, secrets.token_hex(2), lambda _: None))


def row(name: str, certificate: Certificate) -> str:
    """A line of the table in docs/certify/README.md."""
    rules, generated = certificate.rules(), certificate.generated()
    holding = sum(rule.outcome == HOLDS for rule in rules)
    requests = f"{sum(len(f.differences) for f in generated):,} of {sum(f.requests for f in generated):,}"
    kafka = f"Apache Kafka {certificate.like}"
    return f"| {BROKERS[name].title} | {kafka} | {holding} of {len(rules)} | {requests} | [{name}.md]({name}.md) |"


def main() -> None:
    """The brokers that the command line names, or all."""
    for name in sys.argv[1:] or BROKERS:
        certificate = certified(name)
        text = as_markdown(certificate).split("\n", 1)
        title = f"# {BROKERS[name].title} beside Apache Kafka {certificate.like}"
        (PAGES / f"{name}.md").write_text("\n".join([title, *text[1:]]), encoding="utf-8")
        print(row(name, certificate), flush=True)


if __name__ == "__main__":
    main()
