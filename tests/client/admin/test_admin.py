"""The admin client on many things at once: a future per key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import Admin, KafkaError, NewTopic
from coterie.testing import ErrorCode, LocalBroker
from tests.client.group import member, settled


async def came(futures: dict[Any, asyncio.Future[Any]]) -> dict[Any, Any]:
    """Each key's result, or the code of its error."""
    described = {}
    for key, future in futures.items():
        try:
            described[key] = await future
        except KafkaError as error:
            described[key] = error.code
    return described


async def test_topics(coterie_broker: LocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.client.offsets.offsets.NEW_TOPIC_S", 0.2)
    async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
        topics = [NewTopic("a", 2), NewTopic("b", configs={"retention.ms": "7"}), NewTopic("bad/name", 1)]
        bad = ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await came(admin.each.create_topics(topics)) == {"a": None, "b": None, "bad/name": bad}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await came(admin.each.create_partitions({"a": 4, "x": 3})) == {"a": None, "x": unknown}
        assert len(await admin.partitions(["a"])) == 4
        configs = await came(admin.each.describe_configs(["b", "x"]))
        assert (configs["b"]["retention.ms"].value, configs["x"]) == ("7", unknown)
        changes: dict[str, dict[str, str | None]] = {"b": {"retention.ms": None, "segment.bytes": "2048"}}
        changes |= {"a": {"nonsense": "1"}, "x": {}}
        altered = await came(admin.each.incremental_alter_configs(changes))
        assert altered == {"b": None, "a": ErrorCode.INVALID_CONFIG, "x": unknown}
        configs = await admin.describe_configs("b")
        assert (configs["retention.ms"].value, configs["segment.bytes"].value) == ("604800000", "2048")
        with pytest.raises(KafkaError, match=r"did you mean retention\.ms"):
            await admin.incremental_alter_configs("b", {"retention.m": "1"})
        coterie_broker.produce("a", b"x", b"y", b"z")
        starts = await came(admin.each.delete_records({("a", 0): 2, ("a", 9): 0}))
        assert starts[("a", 0)] == 2
        assert starts[("a", 9)] in (unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        ends = await came(admin.each.list_offsets({("a", 0): -1, ("a", 1): -1, ("x", 0): -1}))
        assert ends == {("a", 0): 3, ("a", 1): 0, ("x", 0): unknown}
        assert await came(admin.each.delete_topics(["a", "x"])) == {"a": None, "x": unknown}


async def test_groups(coterie_broker: LocalBroker) -> None:
    coterie_broker.create_topic("t", 2)
    async with Admin({"bootstrap.servers": coterie_broker.bootstrap_servers}) as admin:
        one = await settled(member(coterie_broker, group_instance_id="i"), 2)
        groups = await came(admin.each.describe_consumer_groups(["g", "none"]))
        assert (groups["g"].state, groups["none"]) == ("Stable", ErrorCode.GROUP_ID_NOT_FOUND)
        busy = await came(admin.each.alter_consumer_group_offsets("g", {("t", 0): 3}))
        assert busy == {("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}
        assert await came(admin.each.delete_consumer_groups(["g", "none"])) == {
            "g": ErrorCode.NON_EMPTY_GROUP,
            "none": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        removed = await came(admin.each.remove_members_from_consumer_group("g", ["i", "stranger"], "a test"))
        assert removed == {"i": None, "stranger": ErrorCode.UNKNOWN_MEMBER_ID}
        assert coterie_broker.members("g") == {}
        await one.close()
        offsets = {("t", 0): 3, ("t", 1): 4, ("none", 0): 1}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        altered = await came(admin.each.alter_consumer_group_offsets("h", offsets))
        assert altered == {("t", 0): None, ("t", 1): None, ("none", 0): unknown}
        assert await came(admin.each.list_consumer_group_offsets(["h"])) == {"h": {("t", 0): 3, ("t", 1): 4}}
        assert await came(admin.each.delete_consumer_group_offsets("h", [("t", 0)])) == {("t", 0): None}
        assert await admin.list_consumer_group_offsets("h") == {("t", 1): 4}
        assert await came(admin.each.delete_consumer_groups(["h"])) == {"h": None}


async def test_a_broker_that_is_gone_fails_every_key(coterie_broker: LocalBroker) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:1", "request.timeout.ms": 300}
    async with Admin(settings) as admin:
        gone = ErrorCode.NETWORK_EXCEPTION
        assert await came(admin.each.delete_topics(["a", "b"])) == {"a": gone, "b": gone}
