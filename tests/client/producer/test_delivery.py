"""The end of a producer's batch, for the tasks and callbacks that wait for it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from coterie.client.producer.delivery import BatchEnd
from coterie.producing.batch import Acknowledged


async def test_a_task_that_is_cancelled_ends_nothing_for_the_others_and_leaves_nothing_behind() -> None:
    end = BatchEnd()

    async def waiting() -> Acknowledged | None:
        return await end

    tasks = [asyncio.create_task(waiting()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait({tasks[1]})
    assert len(end._waiters) == 2
    tasks[0].cancel()  # is still to learn of it as the batch ends
    end.reach(Acknowledged(7))
    await asyncio.wait(tasks)
    assert [task.cancelled() for task in tasks] == [True, True, False]
    assert tasks[2].result() == Acknowledged(7)
    assert await end == Acknowledged(7)


async def test_callbacks_run_after_the_end_in_the_context_in_which_they_were_given() -> None:
    variable = ContextVar("variable", default="none")
    end, seen = BatchEnd(), list[str]()
    variable.set("first")
    end.then(lambda: seen.append(variable.get()))
    variable.set("second")
    end.reach(None)
    end.then(lambda: seen.append(variable.get()))
    assert not seen
    await asyncio.sleep(0)
    assert seen == ["first", "second"]
