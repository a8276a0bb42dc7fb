"""The soak's processes, without starting them."""

from __future__ import annotations

from coterie.bench.soak_workers import MEMBER
from coterie.pipeline.options import source_options


def test_a_spark_application_accepts_the_members_settings() -> None:
    """It ended at once, again and again, when the source began to refuse auto.offset.reset."""
    settings = {f"kafka.{name}": str(value) for name, value in MEMBER.items()}
    source = {"kafka.bootstrap.servers": "127.0.0.1:9", "subscribe": "t", "kafka.group.id": "g", "mode": "group"}
    assert source_options(source | settings, streaming=True)
