"""The writer of ISRs, and sessions with ZooKeeper that end."""

from __future__ import annotations

from coterie.controller import nodes
from coterie.controller.isr_writer import IsrRefused, IsrWriter
from coterie.replication.states import PartitionState, WriteIsr
from coterie.zookeeper import paths
from coterie.zookeeper.operations import ConnectionLost, Write

STATE = PartitionState(1, 0, (1,), 1, 3, (1, 2))


def of(topic: str) -> tuple[WriteIsr, Write]:
    """A leader's change, and the write of it."""
    path = paths.partition_state(topic, 0)
    return WriteIsr((topic, 0), STATE), Write(path, nodes.state(STATE), STATE.version)


def test_a_write_that_waits_for_a_connection_ends_with_its_session() -> None:
    """The topic was deleted meanwhile, and another of its name was created: the version was right, the state the old topic's.
    The write that waits behind it is not made either."""
    writer, (first, first_write), (second, _), (third, third_write) = IsrWriter(0), of("t"), of("u"), of("v")
    assert writer.next(0) is None
    writer.write(first)
    writer.write(second)
    assert writer.next(0) == first_write
    writer.suspended()
    writer.refuse(ConnectionLost())
    assert writer.next(1) is None
    writer.expired()
    writer.connected()
    assert writer.next(2) == IsrRefused(first)
    writer.respond()
    assert writer.next(3) is None
    writer.registered()
    assert writer.next(4) is None
    writer.write(third)
    assert writer.next(5) == third_write


def test_a_write_that_waits_for_a_connection_goes_on_in_its_session() -> None:
    writer, (first, first_write) = IsrWriter(0), of("t")
    assert writer.next(0) is None
    writer.write(first)
    assert writer.next(0) == first_write
    writer.suspended()
    writer.refuse(ConnectionLost())
    assert writer.next(1) is None
    writer.connected()
    assert writer.next(2) == first_write
