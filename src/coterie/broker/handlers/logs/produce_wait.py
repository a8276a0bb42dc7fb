"""What a Produce waits for before its response: fsyncs, and with acks=all the replicas in sync (Kafka's DelayedProduce)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coterie.broker.process.scheduling import Scheduler, Timer
from coterie.broker.requests.pending import Pending
from coterie.broker.storage.flusher import Flusher
from coterie.broker.storage.replica_effects import AppendToken
from coterie.broker.storage.topic import code_of
from coterie.log.partition_log import PartitionLog
from coterie.replication.states import ReplicaError
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.logs.produce import PartitionProduceResponse, ProduceResponse


class ProduceWait:
    """Collects what one request waits for while it is carried out; `begin` then gives the response that comes later."""

    def __init__(self) -> None:
        self.to_sync: list[PartitionLog] = []
        self._unacknowledged: dict[AppendToken, PartitionProduceResponse] = {}
        self._unsynced = 0
        self._response: ProduceResponse | None = None
        self._pending = Pending()
        self._complete: Callable[[ProduceResponse], ProduceResponse]
        self._timer: Timer | None = None

    def expect(self, token: AppendToken, response: PartitionProduceResponse) -> None:
        """The replicas in sync are to have the append that has that response."""
        self._unacknowledged[token] = response
        token.decided = partial(self._acknowledged, token)

    def begin(
        self,
        response: ProduceResponse,
        flusher: Flusher,
        scheduler: Scheduler,
        timeout_ms: int,
        complete: Callable[[ProduceResponse], ProduceResponse],
    ) -> Pending:
        """The response, once all is there, passed through ``complete``; appends that are not acknowledged by then are
        REQUEST_TIMED_OUT."""
        self._response, self._unsynced, self._complete = response, len(self.to_sync), complete
        if self._unacknowledged:
            self._timer = scheduler.call_later(max(timeout_ms, 0) / 1000, self._time_out)
            self._pending.cancel = self._timer.cancel
        for log in self.to_sync:
            flusher.after_sync(log, self._synced)
        self._respond_if_done()
        return self._pending

    def _synced(self) -> None:
        self._unsynced -= 1
        self._respond_if_done()

    def _acknowledged(self, token: AppendToken, error: ReplicaError | None) -> None:
        response = self._unacknowledged.pop(token)
        if error is not None:
            response.error_code = code_of(error)
        self._respond_if_done()

    def _time_out(self) -> None:
        for token, response in self._unacknowledged.items():
            token.decided = None
            response.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._unacknowledged.clear()
        self._respond_if_done()

    def _respond_if_done(self) -> None:
        """Not before `begin`, and once: an append may be decided at once, and a sync that is not needed as well."""
        if self._response is None or self._pending.response is not None:
            return
        if not self._unsynced and not self._unacknowledged:
            if self._timer is not None:
                self._timer.cancel()
            self._pending.respond(self._complete(self._response))
