"""The deadlines of a shard's groups and members. Lazy: a heartbeat stores a number; the heap holds one entry per member, looked
at when it comes up. An entry is good while its time is its holder's ``queued_ms``; what members that left have behind them is
swept out when the heap has doubled."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from typing import Protocol

from coterie.coordinator.commands import DeadlineExpired
from coterie.coordinator.consumer.leave import EXPIRY_RETRY_MS
from coterie.coordinator.replay import AnyGroup
from coterie.coordinator.state import Group
from coterie.coordinator.streams.state import StreamsGroup


class Timed(Protocol):
    """What has a deadline: a member, a reservation, a member's timers. ``queued_ms`` is this module's mark on it, -1 without an
    entry; the deadline is `replay`'s alone."""

    queued_ms: int

    @property
    def deadline_ms(self) -> int: ...


SWEPT_FROM = 1_024  # entries


def _timed(group: AnyGroup, member_id: str) -> Timed | None:
    """What has the deadline of a member, or of a member id that is reserved."""
    if not isinstance(group, Group):
        return group.timers.get(member_id)
    return group.members.get(member_id) or group.reservations.get(member_id)


class Deadlines:
    """The heap of deadlines of the groups that ``group_of`` returns by id."""

    def __init__(self, group_of: Callable[[str], AnyGroup | None]) -> None:
        self._group_of = group_of
        self._heap: list[tuple[int, str, str]] = []  # time, group id, member id or ""
        self._sweep_at = SWEPT_FROM

    def __len__(self) -> int:
        return len(self._heap)

    def queue(self, group_id: str, member_id: str, holder: Timed) -> None:
        """Looks at the holder at its present deadline."""
        holder.queued_ms = deadline_ms = holder.deadline_ms
        self._push(deadline_ms, group_id, member_id)

    def _push(self, time_ms: int, group_id: str, member_id: str) -> None:
        heapq.heappush(self._heap, (time_ms, group_id, member_id))
        if len(self._heap) > self._sweep_at:
            self._heap = [entry for entry in self._heap if self._is_good(*entry)]
            heapq.heapify(self._heap)
            self._sweep_at = max(SWEPT_FROM, 2 * len(self._heap))

    def _is_good(self, time_ms: int, group_id: str, member_id: str) -> bool:
        group = self._group_of(group_id)
        if group is None:
            return False
        if not member_id:
            return isinstance(group, Group | StreamsGroup) and group.queued_ms == time_ms
        holder = _timed(group, member_id)
        return holder is not None and holder.queued_ms == time_ms

    def queue_earlier(self, group_id: str, member_id: str, holder: Timed) -> None:
        """Looks at the holder at its present deadline where that comes before the next look."""
        if holder.queued_ms < 0 or holder.deadline_ms < holder.queued_ms:
            self.queue(group_id, member_id, holder)

    def queue_group(self, group: Group | StreamsGroup, settled_ms: int) -> None:
        """The same for the group's own deadline, but for one up to ``settled_ms``: the group is settled at that time next."""
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is not None and deadline_ms > settled_ms:
            self._queue_group_at(group, deadline_ms)

    def queue_group_again(self, group: Group | StreamsGroup, now_ms: int) -> None:
        """The same where a deadline may have passed and not be met, since a record could not be written: then EXPIRY_RETRY_MS
        from now."""
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is not None:
            self._queue_group_at(group, deadline_ms if deadline_ms > now_ms else now_ms + EXPIRY_RETRY_MS)

    def _queue_group_at(self, group: Group | StreamsGroup, time_ms: int) -> None:
        if group.queued_ms < 0 or time_ms < group.queued_ms:
            group.queued_ms = time_ms
            self._push(time_ms, group.group_id, "")

    def next_ms(self) -> int | None:
        """When to call `expired` next; may be early, never late."""
        return self._heap[0][0] if self._heap else None

    def expired(self, now_ms: int) -> Generator[DeadlineExpired, None, None]:
        """As `Shard.expired`."""
        while self._heap and self._heap[0][0] <= now_ms:
            entry = heapq.heappop(self._heap)
            _, group_id, member_id = entry
            group = self._group_of(group_id)
            if group is None or not self._is_good(*entry):
                continue
            if isinstance(group, Group | StreamsGroup) and not member_id:
                group.queued_ms = -1
                try:
                    if (group.next_deadline_ms() or now_ms + 1) <= now_ms:
                        yield DeadlineExpired(group_id)
                finally:
                    self.queue_group_again(group, now_ms)
                continue
            holder = _timed(group, member_id)
            assert holder is not None, f"{member_id} has a good entry and no deadline"
            if holder.deadline_ms > now_ms:
                self.queue(group_id, member_id, holder)
                continue
            holder.queued_ms = -1
            yield DeadlineExpired(group_id, member_id)

    def clear(self) -> None:
        """Drops every deadline."""
        self._heap.clear()
        self._sweep_at = SWEPT_FROM
