"""A broker in virtual time with a topic and the state of a share group, and its members, which speak by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coterie.client.connection.connection import Connection
from coterie.records.batch import batches
from coterie.records.decoding import decode_records
from coterie.testing import simulate
from coterie.testing.simulated import SimulatedWorld, WorldBroker
from coterie.wire.messages.share.share_fetch import SharePartitionData
from coterie_conformance.share_stories.raw_member import LIMIT_S, RawShareMember, initialize_states
from tests.async_tests import AsyncTest, run_by

TOPIC, GROUP = "orders", "billing"


def values(data: SharePartitionData) -> list[bytes]:
    """Of the records that are acquired."""
    offsets = {o for a in data.acquired_records for o in range(a.first_offset, a.last_offset + 1)}
    records = data.records or b""
    every = [record for at, header in batches(records) for record in decode_records(records, at, header)]
    return [record.value or b"" for record in every if record.offset in offsets]


class ShareWorld:
    """A broker in virtual time with the topic orders, whose state in the group billing is initialized."""

    def __init__(self, world: SimulatedWorld, broker: WorldBroker, partitions: int) -> None:
        self.world, self.broker = world, broker
        broker.create_topic(TOPIC, partitions)
        self.topic_id = broker.broker.topics.by_name[TOPIC].topic_id
        self.partitions = partitions

    async def initialize(self, start_offset: int = 0, state_epoch: int = 1) -> None:
        """As the group coordinator does it when a member joins."""
        connection = await self.connect()
        codes = await initialize_states(connection, GROUP, self.topic_id, self.partitions, start_offset, state_epoch)
        assert codes == [0] * self.partitions
        connection.close()

    async def connect(self) -> Connection:
        return await Connection.connect(self.broker.host, self.broker.port, "raw", 30.0)

    async def member(self, member_id: str = "c1", **options: Any) -> RawShareMember:
        return RawShareMember(await self.connect(), self.topic_id, member_id, GROUP, options=options)


def in_share_world(
    *,
    records: int = 0,
    partitions: int = 1,
    settings: Mapping[str, object] | None = None,
    start_offset: int | None = 0,
    seed: int = 1,
) -> Callable[[AsyncTest], Callable[..., None]]:
    """Decorates a test with a broker whose topic has so many records, one a batch, in its first partition."""

    def run(test: AsyncTest) -> None:
        with simulate(seed) as world:
            share = ShareWorld(world, world.broker(settings), partitions)
            for number in range(records):
                share.broker.produce(TOPIC, b"%d" % number, partition=0)
            if start_offset is not None:
                world.run(share.initialize(start_offset))
            world.run(test(share), LIMIT_S)

    return run_by(run)
