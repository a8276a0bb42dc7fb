"""Many producers that begin at all brokers of a cluster at once, so that these reserve blocks of producer ids at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from coterie.client import KafkaError
from coterie.client.connection.connection import Connection
from coterie.client.connection.handshake import answer_type
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from coterie_conformance.stories.programs import RETRY_S, StoryWork

AT_ONCE = 50  # begin at one broker
PAUSE_S = 0.1
TIMEOUT_S = 2.0


@dataclass(slots=True)
class GivenProducerIds:
    """``given`` by id the broker that gave it; ``twice``: a sentence for each id that was given again."""

    work: StoryWork
    given: dict[int, str] = field(default_factory=dict)
    twice: list[str] = field(default_factory=list)

    async def begin(self, name: str, server: str) -> None:
        """Producers without a transactional id begin at that broker."""
        self.work.begin(name)
        host, _, port = server.partition(":")
        while not self.work.finishing:
            try:
                await self._begin_at(server, await Connection.connect(host, int(port), name, TIMEOUT_S))
            except (KafkaError, OSError) as error:
                self.work.history.errors.append((name, type(error).__name__))
                await asyncio.sleep(RETRY_S)

    async def _begin_at(self, server: str, connection: Connection) -> None:
        request = InitProducerIdRequest(None, 10_000)
        try:
            while not self.work.finishing:
                calls = [connection.request(request, answer_type(request), TIMEOUT_S) for _ in range(AT_ONCE)]
                for response in await asyncio.gather(*calls):
                    if response.error_code == ErrorCode.NONE:
                        self._note(response.producer_id, server)
                await asyncio.sleep(PAUSE_S)
        finally:
            connection.close()

    def _note(self, producer_id: int, server: str) -> None:
        other = self.given.setdefault(producer_id, "")
        if other:
            self.twice.append(f"{other} and {server} have given the producer id {producer_id}")
        self.given[producer_id] = server
