"""Altered settings as each broker reads them: notifications, what was missed, and what is asked for (Kafka's
ZkNodeChangeNotificationListenerTest)."""

from __future__ import annotations

from coterie.controller import nodes
from coterie.controller.changes.config_changes import (
    GATHER_MS,
    READ_AT_ONCE,
    ConfigChanges,
    SettingsChanged,
    SettingsRead,
)
from coterie.controller.session_script import KEPT_MS
from coterie.zookeeper.operations import ConnectionLost, List, SessionExpired, Write
from tests.controller.notification_reader import FOREVER_MS, NotificationReader


class Reader(NotificationReader[ConfigChanges, SettingsRead]):
    def __init__(self) -> None:
        super().__init__(ConfigChanges, lambda machine, _: machine.changed(), SettingsRead)

    def alter(self, kind: str, name: str, **settings: str) -> None:
        self.apply(Write(nodes.config(kind, name), nodes.settings(settings)))
        self.notify(nodes.config_change(kind, name))

    def notify(self, data: str) -> None:
        self.notify_by(f"{nodes.CONFIG_CHANGES}/config_change_", data)

    def seen(self, after_ms: int = GATHER_MS) -> list[SettingsChanged]:
        return [change for effect in self.effects(after_ms) for change in effect.changes]


def _topic(name: str, **settings: str) -> SettingsChanged:
    return SettingsChanged(nodes.TOPICS_KIND, name, settings)


def test_each_alteration_is_read_once() -> None:  # testProcessNotification
    reader = Reader()
    assert reader.seen() == []
    reader.alter("topics", "t", a="1")
    reader.alter("topics", "u", b="2")
    assert reader.seen() == [_topic("t", a="1"), _topic("u", b="2")]
    assert reader.seen() == []
    reader.alter("topics", "t")
    assert reader.seen() == [_topic("t")]


def test_what_is_notified_within_a_moment_is_read_together() -> None:
    """The first at once; then, so that the broker keeps many with one write, after GATHER_MS, or where there are many."""
    reader = Reader()
    reader.alter("groups", "g", a="1")
    assert reader.seen() == [SettingsChanged("groups", "g", {"a": "1"})]
    for number in range(READ_AT_ONCE):
        reader.alter("groups", f"g{number}", a="1")
    assert len(reader.seen(after_ms=1)) == READ_AT_ONCE
    reader.alter("groups", "g", a="2")
    assert reader.seen(after_ms=1) == []
    reader.alter("topics", "t", a="1")  # is not kept
    assert reader.seen(after_ms=1) == [SettingsChanged("groups", "g", {"a": "2"}), _topic("t", a="1")]


def test_several_alterations_of_one_topic_are_read_together() -> None:
    reader = Reader()
    reader.alter("topics", "t", a="1")
    reader.alter("topics", "t", a="2")
    assert reader.seen() == [_topic("t", a="2")]


def test_brokers_and_groups_are_read_at_the_start() -> None:
    reader = Reader()
    reader.apply(Write(nodes.config("brokers", nodes.DEFAULT_ENTITY), nodes.settings({"c": "3"})))
    reader.apply(Write(nodes.config("groups", "g"), nodes.settings({"d": "4"})))
    assert reader.seen() == [
        SettingsChanged("brokers", nodes.DEFAULT_ENTITY, {"c": "3"}),
        SettingsChanged("groups", "g", {"d": "4"}),
    ]


def test_settings_are_read_on_request() -> None:
    reader = Reader()
    assert reader.seen() == []
    reader.machine.read("topics", "new")
    assert reader.seen() == [_topic("new")]


def test_a_tools_mistake_is_passed_over() -> None:
    reader = Reader()
    reader.notify("no JSON")
    reader.alter("topics", "t", a="1")
    assert reader.seen() == [_topic("t", a="1")]
    reader.apply(Write(nodes.config("topics", "t"), "no JSON"))
    reader.notify(nodes.config_change("topics", "t"))
    assert reader.seen() == []


# testConditionalUpdate.. of sessions
def test_what_changed_while_the_session_was_over_is_read_in_the_next_one() -> None:
    reader = Reader()
    assert reader.seen() == []
    reader.server.close(reader.session)
    reader.machine.expired()
    reader.machine.suspended()
    reader.alter("topics", "t", a="1")
    assert reader.seen() == []
    reader.session = reader.server.connect(FOREVER_MS, lambda _: reader.machine.changed())
    reader.machine.connected()
    assert reader.seen() == [_topic("t", a="1")]


def test_a_request_survives_a_lost_connection_and_a_lost_session() -> None:
    for loses in (ConnectionLost, SessionExpired):
        reader = Reader()
        assert reader.seen() == []
        reader.machine.read("topics", "t")
        reader.loses = loses
        reader.machine.connected()
        assert reader.seen() == [_topic("t")]


def test_a_clock_that_is_ahead_deletes_nothing_that_is_new() -> None:
    """Others may not have read it. With ZooKeeper's time of the node it was gone at once."""
    reader = Reader()
    reader.clock_offset_ms = 5 * 3_600_000
    reader.alter("topics", "t", a="1")
    assert reader.seen() == [_topic("t", a="1")]
    assert reader.apply(List(nodes.CONFIG_CHANGES)) == ["config_change_0000000000"]


def test_old_notifications_are_deleted() -> None:  # KAFKA: purgeObsoleteNotifications
    reader = Reader()
    reader.alter("topics", "t", a="1")
    assert reader.seen() == [_topic("t", a="1")]
    reader.world.run_until(reader.world.now_ms + KEPT_MS - 1_000)
    reader.alter("topics", "u")
    assert reader.seen() == [_topic("u")]
    assert len(reader.apply(List(nodes.CONFIG_CHANGES))) == 2  # type: ignore[arg-type]
    reader.world.run_until(reader.world.now_ms + 2_000)
    reader.alter("topics", "v")
    assert reader.seen() == [_topic("v")]
    assert reader.apply(List(nodes.CONFIG_CHANGES)) == ["config_change_0000000001", "config_change_0000000002"]
