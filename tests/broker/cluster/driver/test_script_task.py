"""A session's operations in the event loop."""

from __future__ import annotations

import asyncio

from coterie.broker.cluster.zookeeper.session import ScriptTask
from coterie.controller.session_script import SessionScript
from coterie.machines.script import Steps
from coterie.zookeeper.operations import ConnectionLost, Operation, Read


async def test_a_session_that_refuses_at_once_does_not_hold_the_loop() -> None:
    """The machine repeats the operation, since it has not heard that the connection is lost."""
    requests: list[Operation] = []

    async def refused(operation: Operation) -> object:
        requests.append(operation)
        raise ConnectionLost

    def life() -> Steps[None]:
        yield from machine.perform(Read("/"))

    machine = SessionScript(life(), 0)
    task = asyncio.ensure_future(ScriptTask(machine, refused, lambda _: None, lambda: 0).run())
    for _ in range(100):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(requests) == 1
