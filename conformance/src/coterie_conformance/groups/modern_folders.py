"""A folder that Apache Kafka, coterie and Apache Kafka again work in, with a share group and a streams group in it.

Each finds what the one before has left: groups with their epochs, members and tasks, start offsets, and of each record in the
share group how often it was delivered. No record is accepted twice, and none is lost. In
a second folder each broker is killed while records are in flight: an acquisition is in no log, so that these come with the
delivery count that was written last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from coterie.broker.kafka_bootstrap import hand_over
from coterie.certify.question import API_BY_NAME, Question, Value
from coterie.certify.settling import until_the_coordinator_has_loaded
from coterie.certify.side import StorySide
from coterie_conformance.everything.generated.domain import Names
from coterie_conformance.everything.generated.domains_of_groups import batches
from coterie_conformance.everything.generated.pieces import piece
from coterie_conformance.servers.coterie_process import CoterieBroker
from coterie_conformance.servers.kafka import KafkaBroker

Address = tuple[str, int]
Tree = Any
Acquired = list[tuple[int, int, int]]  # first offset, last offset, delivery count
PREFIX = "folder-"
# The newest versions of a Kafka that lacks some of ours.
NEWEST: dict[str, dict[str, int]] = {"4.3.0": {"StreamsGroupHeartbeat": 0, "StreamsGroupDescribe": 0}}
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    **{f"share.coordinator.state.topic.{name}": "1" for name in ("num.partitions", "replication.factor", "min.isr")},
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    # Members send no heartbeat while a broker stops and another starts.
    **{f"group.{kind}.max.session.timeout.ms": "600000" for kind in ("share", "streams")},
    **{f"group.{kind}.session.timeout.ms": "600000" for kind in ("share", "streams")},
}
_ID = {"@": "topic id", "of": "$t"}
_LOOK = ("Metadata", 12, {"topics": [{"name": "$t"}], "allow_auto_topic_creation": False})
_DESCRIBED: tuple[tuple[str, int, dict[str, Value]], ...] = (
    ("ShareGroupDescribe", 1, {"group_ids": ["$g"]}),
    ("DescribeShareGroupOffsets", 1, {"groups": [{"group_id": "$g", "topics": None}]}),
    ("StreamsGroupDescribe", 1, {"group_ids": ["$s"]}),
    ("OffsetFetch", 9, {"groups": [{"group_id": "$s", "topics": None}]}),
)
# What is delivered after the first broker: 1 was released, 3 to 5 were in flight until the session ended.
AFTER_KAFKA: Acquired = [(1, 1, 3), (3, 5, 2)]
# And after the second: it has 1 and 3 accepted, 4 released, and 5 in flight until its session ended.
AFTER_COTERIE: Acquired = [(4, 5, 3)]
# As a Kafka reads it that leaves neighbours apart where a state between them is overtaken.
APART: dict[str, Acquired] = {"4.3.0": [(4, 4, 3), (5, 5, 3)]}
# After a killed Kafka: 1 was released, acquired again and in flight, 3 to 5 were in flight for the first time.
AFTER_KILLED_KAFKA: Acquired = [(1, 1, 2), (3, 5, 1)]
# And after a killed coterie: it has 1 accepted; 3 was released, acquired again and in flight, as 4 and 5.
AFTER_KILLED_COTERIE: Acquired = [(3, 3, 2), (4, 5, 1)]


class FolderVisit:
    """A member's requests to the broker that has the folder now, in the versions that Kafka ``version`` has."""

    def __init__(self, address: Address, version: str) -> None:
        self.side = StorySide("folder", address, PREFIX, int(time.time()) * 1000)
        self._number = 0
        newest = NEWEST.get(version, {})
        self._served = {
            name: replace(api.advertised, last=newest.get(name, api.advertised.last))
            for name, api in API_BY_NAME.items()
        }

    async def responded(self, api: str, version: int, body: dict[str, Value]) -> Tree:
        """Raises AssertionError for a response with an error of the whole request."""
        self._number += 1
        version = min(version, self._served[api].last)
        response = await self.side.ask(Question(f"{api}{self._number}", api, version, body))
        assert isinstance(response, dict), f"{api}: {response}"
        assert response.get("error_code", "NONE") == "NONE", f"{api}: {response}"
        return response

    async def pieces(self, *names: str, group: str = "$g") -> None:
        """The requests of these pieces of `everything`."""
        for name in names:
            for question in piece(name, Names(group=group), self._served):
                await self.responded(question.api, question.version, question.body)

    async def described(self) -> dict[str, Tree]:
        """The groups and their offsets, by the API that tells them."""
        return {api: await self.responded(api, version, body) for api, version, body in _DESCRIBED}

    async def fetched(
        self, member: str, epoch: int, *acknowledged: tuple[int, int, list[int]], wait_ms: int = 20_000
    ) -> Acquired:
        """The records of partition 0 that the member acquires."""
        partition = {"partition_index": 0, "acknowledgement_batches": batches(*acknowledged)}
        limits = {"max_wait_ms": wait_ms, "min_bytes": 1, "max_records": 100, "batch_size": 100}
        session = {"group_id": "$g", "member_id": member, "share_session_epoch": epoch}
        topics = [{"topic_id": _ID, "partitions": [partition]}]
        response = await self.responded("ShareFetch", 2, {**session, **limits, "topics": topics})
        rows = [
            row for topic in response["responses"] for part in topic["partitions"] for row in part["acquired_records"]
        ]
        return [(row["first_offset"], row["last_offset"], row["delivery_count"]) for row in rows]

    async def acknowledged(self, member: str, epoch: int, *ranges: tuple[int, int, list[int]]) -> None:
        """Each range is a first and a last offset, and types of acknowledgement."""
        partition = {"partition_index": 0, "acknowledgement_batches": batches(*ranges)}
        session = {"group_id": "$g", "member_id": member, "share_session_epoch": epoch}
        response = await self.responded(
            "ShareAcknowledge", 2, {**session, "topics": [{"topic_id": _ID, "partitions": [partition]}]}
        )
        codes = {part["error_code"] for topic in response["responses"] for part in topic["partitions"]}
        assert codes == {"NONE"}, codes

    async def streams_beat(self, member: str, epoch: int) -> int:
        """Returns the member's epoch."""
        body = {"group_id": "$s", "member_id": member, "member_epoch": epoch}
        return int((await self.responded("StreamsGroupHeartbeat", 1, body))["member_epoch"])


async def _first(address: Address, version: str, *, killed: bool) -> dict[str, Tree]:
    """The first broker: a record accepted, one released, one rejected, four in flight, whose session ends unless the broker is
    to be killed; a streams group with its offsets."""
    await until_the_coordinator_has_loaded(address)
    visit = FolderVisit(address, version)
    await visit.pieces("topic", "records", "more records", "share offsets", "sharer", "acquired")
    await visit.acknowledged("$m", 1, (0, 0, [1]), (1, 1, [2]), (2, 2, [3]))
    await visit.fetched("$m", 2)
    if not killed:
        await visit.fetched("$m", -1)
    await visit.pieces("streams", group="$s")
    offsets = [
        {"topic_id": _ID, "partitions": [{"partition_index": 0, "committed_offset": 2, "committed_metadata": "m"}]}
    ]
    await visit.responded(
        "OffsetCommit", 10, {"group_id": "$s", "member_id": "$m", "generation_id_or_member_epoch": 2, "topics": offsets}
    )
    described = await visit.described()
    visit.side.close()
    return described


async def _again(
    address: Address, version: str, wanted: dict[str, Tree], delivered: Acquired, member: str
) -> tuple[list[str], FolderVisit]:
    """What the next broker finds otherwise than the one before has left it; the visit goes on."""
    await until_the_coordinator_has_loaded(address)
    visit = FolderVisit(address, version)
    await visit.responded(*_LOOK)
    now = await visit.described()
    wrong = [f"{api}: {wanted[api]} before, {now[api]} after" for api in wanted if now[api] != wanted[api]]
    acquired = await visit.fetched(member, 0)
    if acquired != delivered:
        wrong.append(f"delivered {acquired} instead of {delivered}")
    return wrong, visit


async def _second(address: Address, version: str, wanted: dict[str, Tree]) -> tuple[list[str], dict[str, Tree]]:
    """The second broker: accepts two records of the four, releases one, and leaves one in flight."""
    wrong, visit = await _again(address, version, wanted, AFTER_KAFKA, "$w")
    await visit.acknowledged("$w", 1, (1, 1, [1]), (3, 3, [1]), (4, 4, [2]))
    await visit.fetched("$w", -1)
    await visit.streams_beat("$m", 2)
    described = await visit.described()
    visit.side.close()
    return wrong, described


async def _second_killed(address: Address, version: str, wanted: dict[str, Tree]) -> tuple[list[str], dict[str, Tree]]:
    """The second broker: accepts one record of the four, releases one, and acquires it again, before it is killed."""
    wrong, visit = await _again(address, version, wanted, AFTER_KILLED_KAFKA, "$w")
    await visit.acknowledged("$w", 1, (1, 1, [1]), (3, 3, [2]))
    again = await visit.fetched("$w", 2)
    if again != [(3, 3, 2)]:
        wrong.append(f"delivered {again} again")
    await visit.streams_beat("$m", 2)
    described = await visit.described()
    visit.side.close()
    return wrong, described


async def _third(address: Address, version: str, wanted: dict[str, Tree], delivered: Acquired) -> list[str]:
    """The first broker again: accepts the rest, so that nothing is left."""
    wrong, visit = await _again(address, version, wanted, delivered, "$x")
    await visit.acknowledged("$x", 1, *((first, last, [1]) for first, last, _ in delivered))
    await visit.streams_beat("$m", 2)
    offsets = await visit.responded(*_DESCRIBED[1])
    rows = [row for group in offsets["groups"] for topic in group["topics"] for row in topic["partitions"]]
    rest = [row["lag"] for row in rows if row["partition_index"] == 0]
    if rest != [0]:
        wrong.append(f"lag at the end: {rest}")
    visit.side.close()
    return wrong


def there_and_back(version: str, folder: Path, *, killed: bool = False) -> Iterator[tuple[str, str]]:
    """(what took over whose folder, what is wrong or ""). Raises CannotRun."""
    kafka, ours = KafkaBroker(version, folder, SETTINGS), CoterieBroker(folder / "data", SETTINGS)
    how = ", killed with records in flight" if killed else ""
    try:
        kafka.start()
        left = asyncio.run(_first(kafka.address, version, killed=killed))
        (kafka.kill if killed else kafka.stop)()
        ours.start()
        wrong, left = asyncio.run((_second_killed if killed else _second)(ours.address, version, left))
        (ours.kill if killed else ours.stop)()
        yield f"coterie takes over Kafka's share and streams groups{how}", "; ".join(wrong)
        kafka.start()
        wanted = AFTER_KILLED_COTERIE if killed else APART.get(version, AFTER_COTERIE)
        yield f"Kafka takes them over again{how}", "; ".join(asyncio.run(_third(kafka.address, version, left, wanted)))
    finally:
        ours.stop()
        kafka.stop()


def begun_by_coterie(version: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The same of a folder that coterie has begun and handed over (`coterie log bootstrap`). Raises CannotRun."""
    kafka = KafkaBroker(version, folder, SETTINGS)
    ours = CoterieBroker(folder / "data", SETTINGS | {"node.id": "1"})
    try:
        ours.start()
        left = asyncio.run(_first(ours.address, version, killed=False))
        ours.stop()
        hand_over(folder / "data", version.rpartition(".")[0])
        kafka.start()
        wrong, left = asyncio.run(_second(kafka.address, version, left))
        kafka.stop()
        yield "Kafka takes over share and streams groups that coterie began", "; ".join(wrong)
        ours.start()
        wrong = asyncio.run(_third(ours.address, version, left, AFTER_COTERIE))
        yield "coterie takes them over again", "; ".join(wrong)
    finally:
        ours.stop()
        kafka.stop()
