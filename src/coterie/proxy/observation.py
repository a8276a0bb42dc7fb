"""The observed groups with a clock: what passes a proxy goes in, lines of the journal come out."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from coterie.client.errors import KafkaError
from coterie.coordinator.journal.line import JournalLine
from coterie.machines.cluster_metadata import GROUP
from coterie.proxy.observed.classic_group import SeenRequest
from coterie.proxy.observed.groups import WATCHED, WATCHED_KEYS, ObservedGroups
from coterie.proxy.requests import FIND_COORDINATOR, METADATA, RequestHead
from coterie.wire.messages.groups.explain_group import ExplainGroupRequest, ExplainGroupResponse
from coterie.wire.messages.groups.find_coordinator import Coordinator, FindCoordinatorRequest

logger = logging.getLogger("coterie.proxy")
ADVANCE_EVERY_S = 1.0


class PassageObservation:
    """``emit`` takes each line, None: nobody does. Use `run` as a task beside the proxy. What goes wrong here is logged, and
    ends no connection."""

    def __init__(self, emit: Callable[[JournalLine], None] | None) -> None:
        self.groups = ObservedGroups(self._emit)
        self._sink = emit
        self._now_ms = 0

    def _emit(self, line: JournalLine) -> None:
        if self._sink is None:
            return
        try:
            self._sink(line)
        except (OSError, KafkaError) as error:
            logger.error("the journal cannot be written, and goes on no further: %s", error)
            self._sink = None

    def _time_ms(self) -> int:
        self._now_ms = max(self._now_ms, int(time.time() * 1000))  # a clock that is set back
        return self._now_ms

    def watches(self, api_key: int) -> bool:
        """Whether requests of the API are looked at."""
        return api_key in WATCHED_KEYS or api_key in (ExplainGroupRequest.api_key, FIND_COORDINATOR)

    def sent(self, head: RequestHead, request: Any, client_host: str) -> SeenRequest | None:
        """A request goes to the broker; None for one that does not matter."""
        if type(request) not in WATCHED:
            return None
        now_ms = self._time_ms()
        seen = SeenRequest(request, head.api_version, head.client_id, client_host, now_ms)
        self._guarded(request.group_id, lambda: self.groups.sent(seen, now_ms))
        return seen

    def responded(self, seen: SeenRequest, response: Any) -> None:
        """Its response; None where there will be none."""
        now_ms = self._time_ms()
        self._guarded(seen.request.group_id, lambda: self.groups.responded(seen, response, now_ms))

    def _guarded(self, group_id: str, look: Callable[[], None]) -> None:
        try:
            look()
        except Exception:
            logger.exception("what is known of group %s is dropped: a request of it was not understood", group_id)
            self.groups.forget(group_id)

    def named(self, head: RequestHead, request: Any, response: Any) -> None:
        """A response that names brokers, in Metadata topics too, and the request, where it is one that `watches` has."""
        if head.api_key == METADATA:
            self.groups.topics(response)
        elif isinstance(request, FindCoordinatorRequest) and request.key_type == GROUP:
            named = response.coordinators or [Coordinator(request.key, response.node_id, "", 0, response.error_code)]
            self.groups.coordinators({c.key: c.node_id for c in named if not c.error_code}, self._time_ms())

    def own_response(self, request: Any) -> ExplainGroupResponse | None:
        """To `coterie groups why`, of a group that is known here; None: the broker may know it."""
        if not isinstance(request, ExplainGroupRequest):
            return None
        document = self.groups.explain(request.group_id, self._time_ms())
        return None if document is None else ExplainGroupResponse(0, json.dumps(document).encode())

    async def run(self) -> None:
        """Lets time pass, until it is cancelled."""
        while True:
            await asyncio.sleep(ADVANCE_EVERY_S)
            self.groups.advance(self._time_ms())
