"""docs/limits.md beside the table in the code, and the table beside the settings."""

from __future__ import annotations

from pathlib import Path

from coterie.broker.settings import BROKER_SETTINGS, BrokerSettings
from coterie.client.connection.handshake import Handshake
from coterie.client.security import PLAINTEXT
from tests.broker import limits_page as limits

ROOT = Path(__file__).parent.parent.parent


def test_the_page_is_the_table() -> None:
    """To write it again: python -m tests.broker.limits_page > docs/limits.md"""
    assert (ROOT / "docs" / "limits.md").read_text() == limits.markdown()


def test_the_client_sends_the_versions_that_the_page_names() -> None:
    first = Handshake("c", PLAINTEXT.login()).start()
    assert f"| ApiVersions | {int.from_bytes(first[6:8], 'big')} |" in limits.markdown()


def test_each_setting_of_the_table_has_an_effect() -> None:
    for limit in limits.LIMITS:
        assert bool(limit.setting) != bool(limit.fixed), limit.on
        if limit.setting:
            assert not BROKER_SETTINGS[limit.setting].no_effect
            assert limit.value.replace(",", "") == str(BrokerSettings()[limit.setting])


def test_each_bound_among_the_settings_is_in_the_table() -> None:
    """What bounds clients has max in its name; the others bound the broker's own work, or topics."""
    others = {
        "group.max.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "group.share.max.session.timeout.ms",
        "group.share.max.heartbeat.interval.ms",
        "group.share.max.assignment.interval.ms",
        "group.share.max.record.lock.duration.ms",
        "group.share.max.delivery.count.limit",  # of a group's own limit, beside which it stands
        "group.share.max.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.streams.max.session.timeout.ms",
        "group.streams.max.heartbeat.interval.ms",
        "group.streams.max.assignment.interval.ms",
        "group.streams.max.standby.replicas",  # of a group's own number
        "transaction.max.timeout.ms",
        "log.message.timestamp.difference.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.after.max.ms",
        "log.cleaner.max.compaction.lag.ms",
        "replica.fetch.max.bytes",
        "replica.fetch.response.max.bytes",
        "replica.fetch.wait.max.ms",
        "replica.lag.time.max.ms",
        "controlled.shutdown.max.retries",
        "connections.max.reauth.ms",
        "delegation.token.max.lifetime.ms",
    }
    bounds = {n for n, s in BROKER_SETTINGS.items() if ".max" in n and not s.no_effect}
    assert bounds - others <= {limit.setting for limit in limits.LIMITS}
