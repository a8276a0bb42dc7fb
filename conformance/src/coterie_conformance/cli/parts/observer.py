"""What `compare --part observer` reports: the causes that `coterie observe` concludes of a group on Apache Kafka."""

from __future__ import annotations

from coterie.text.quantity import quantity
from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check
from coterie_conformance.tools.our_commands import is_older

CONSUMER_SINCE = "4.0"


def observer_part(options: PartOptions) -> Figures:
    """The group's life under each protocol of the version."""
    from coterie_conformance.observer.story import ObservedStep, observe_kafka

    def progress(protocol: str, seen: ObservedStep) -> None:
        wrong = "" if seen.is_right else f"concluded {', '.join(seen.causes) or 'nothing'}"
        write_check(f"observer, {protocol} protocol, {seen.step.name}", wrong)

    protocols = ("classic",) if is_older(options.version, CONSUMER_SINCE) else ("classic", "consumer")
    lives = observe_kafka(options.version, options.folder / "observer", protocols, progress)
    checks = {f"{protocol}, {seen.step.name}": seen.is_right for protocol, life in lives.items() for seen in life}
    return {"observer": checks, "failed": sum(not right for right in checks.values())}


def observer_sentences(figures: Figures) -> list[str]:
    """The lines about the part's figures."""
    checks = figures["observer"]
    return [f"  observer: the cause of {sum(checks.values())} of {quantity(len(checks), 'step')} named right"]
