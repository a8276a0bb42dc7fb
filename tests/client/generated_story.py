"""A generated story of a client: steps in any order, a share of the calls cancelled at one of their awaits, and meanwhile
connections cut, responses lost and requests refused."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar

from coterie.testing import ErrorCode, LocalBroker
from tests.awaiting import until
from tests.client.cancelling import Cancelled, When

STORY_S = 120.0
LAST_AWAIT = 4
NOTED_LINES = 60


class GeneratedStory:
    """``refusals``: APIs whose requests are refused, each with an error code; ``lost``: APIs whose responses are lost;
    ``lines``: the calls and disturbances so far, of which an error has the last ones as a note."""

    broker_settings: ClassVar[Mapping[str, str]] = {}
    cancelled_share: ClassVar[float]
    refusals: ClassVar[tuple[tuple[str, ErrorCode], ...]]
    lost: ClassVar[tuple[str, ...]]

    def __init__(self, seed: int, broker: LocalBroker) -> None:
        self.rng, self.broker, self.lines = random.Random(seed), broker, list[str]()

    async def run(self) -> None:
        """The steps, and what must hold in the end."""
        raise NotImplementedError

    def note(self, *words: object) -> None:
        self.lines.append(" ".join(map(str, words)))

    async def call(self, name: str, call: Awaitable[Any]) -> tuple[bool, Any]:
        """Whether the call was cancelled, and what it returned. Raises what it raises."""
        if self.rng.random() >= self.cancelled_share:
            self.note(name)
            return False, await call
        cancelled = Cancelled(self.rng.randint(0, LAST_AWAIT), self.rng.choice(list(When)))
        results: list[Any] = []

        async def kept() -> None:
            results.append(await call)

        try:
            await cancelled.during(kept())
        finally:
            self.note(name if results else f"{name}, which is cancelled or fails")
        return not results, results[0] if results else None

    # -- what happens meanwhile -----------------------------------------------------------------------------------------------

    def disturbances(self) -> list[Callable[[], None]]:
        return [self.cut, self.lose, self.refuse]

    async def disturb(self) -> None:
        self.rng.choice(self.disturbances())()

    def cut(self) -> None:
        self.note("every connection is cut")
        self.broker.drop_connections()

    def lose(self) -> None:
        self.broker.lose_response(api := self.rng.choice(self.lost), times=1)
        self.note("the next response is lost:", api)

    def refuse(self) -> None:
        api, code = self.rng.choice(self.refusals)
        self.note("the next request is refused:", api, code.name)
        self.broker.fail(api, code, times=1)

    # -- from beginning to end ------------------------------------------------------------------------------------------------

    async def tell(self) -> None:
        """Runs it; in the end no task is left. An error carries the last lines."""
        try:
            async with asyncio.timeout(STORY_S):
                await self.run()
            await until(lambda: asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks)
        except BaseException as error:
            error.add_note("\n".join(self.lines[-NOTED_LINES:]))
            raise


def tell(kind: type[GeneratedStory], seeds: Iterable[int]) -> None:
    """The story of each seed, with a broker of its own."""
    for seed in seeds:
        with LocalBroker(kind.broker_settings) as broker:
            try:
                asyncio.run(_story(kind, seed, broker))
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise


async def _story(kind: type[GeneratedStory], seed: int, broker: LocalBroker) -> None:
    await kind(seed, broker).tell()


def tell_as_requested(kind: type[GeneratedStory]) -> None:
    """Those of the command line: FIRST COUNT."""
    first, count = map(int, sys.argv[1:])
    tell(kind, range(first, first + count))
