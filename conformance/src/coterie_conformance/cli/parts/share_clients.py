"""The part of `compare` that has share consumers: Kafka's own, ours, librdkafka's and franz-go's, on both brokers."""

from __future__ import annotations

from coterie_conformance.cli.parts.options import Figures, PartOptions, write_check


def share_clients_part(options: PartOptions) -> Figures:
    """Every story with every client on both brokers, then Kafka's two tools."""
    from coterie_conformance.share_clients.run import run_share_clients

    checks = run_share_clients(options.version, options.folder / "share-clients", write_check, options.brokers)
    return {"share_clients": checks, "failed": sum(not right for right in checks.values())}


def share_clients_sentences(figures: Figures) -> list[str]:
    """The line of `share_clients_part`'s figures."""
    checks = figures["share_clients"]
    return [f"  share consumers: {sum(checks.values())} of {len(checks)} as Kafka's own on Apache Kafka"]
