"""The command line of `coterie-conformance`, one file per verb."""

from __future__ import annotations

import click

from coterie.cli.parts.commands import VerbGroup
from coterie_conformance import __version__

# verb -> (module, its line in `coterie-conformance --help`)
VERBS = {
    "compare": ("coterie_conformance.cli.compare", "Compare with the real Apache Kafka."),
    "bench": ("coterie_conformance.cli.bench", "Measure coterie on this machine."),
    "fuzz": ("coterie_conformance.cli.fuzz", "Feed generated and mutated bytes to every decoder."),
    "stories": ("coterie_conformance.cli.stories", "Run the production programs in virtual time, under faults."),
    "interleavings": ("coterie_conformance.cli.interleavings", "Run a small group through every state."),
    "soak": ("coterie_conformance.cli.soak", "Kill members of a group for minutes, and count."),
    "study": ("coterie_conformance.cli.study", "Measure the study's points with real processes."),
}


@click.command(cls=VerbGroup, verbs=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="coterie-conformance", help="Show the version, and exit.")
def main() -> None:
    """Judge and measure coterie: beside Apache Kafka, under load, under faults."""
