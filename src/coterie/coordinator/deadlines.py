"""The deadlines of a shard's groups and members. Lazy: a heartbeat stores a number; the heap holds one entry per member, looked
at when it comes up."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator
from typing import Protocol

from coterie.coordinator.commands import DeadlineExpired
from coterie.coordinator.consumer.state import ConsumerGroup
from coterie.coordinator.dispatch import AnyGroup, timed
from coterie.coordinator.state import Group


class Timed(Protocol):
    """What has a deadline: a member, a reservation, a member's timers."""

    queued_ms: int

    @property
    def deadline_ms(self) -> int: ...


class Deadlines:
    """Of the groups that ``group_of`` returns by id."""

    def __init__(self, group_of: Callable[[str], AnyGroup | None]) -> None:
        self._group_of = group_of
        self._heap: list[tuple[int, str, str]] = []  # time, group id, member id or ""

    def queue(self, group_id: str, member_id: str, holder: Timed) -> None:
        """Looks at the holder at its present deadline."""
        holder.queued_ms = deadline_ms = holder.deadline_ms
        heapq.heappush(self._heap, (deadline_ms, group_id, member_id))

    def restart_session(self, group: AnyGroup, member_id: str, deadline_ms: int) -> None:
        """A member's session ends at ``deadline_ms`` from now on. A reserved id has no session."""
        if isinstance(group, ConsumerGroup):
            timers = group.timers.get(member_id)
            if timers is not None:
                timers.session_ms = deadline_ms
                self.queue_earlier(group.group_id, member_id, timers)
            return
        member = group.members.get(member_id)
        if member is not None:
            member.deadline_ms = deadline_ms
            self.queue_earlier(group.group_id, member_id, member)

    def queue_earlier(self, group_id: str, member_id: str, holder: Timed) -> None:
        """Looks at the holder at its present deadline where that comes before the next look."""
        if holder.queued_ms < 0 or holder.deadline_ms < holder.queued_ms:
            self.queue(group_id, member_id, holder)

    def queue_group(self, group: Group) -> None:
        """The same for the group's own deadline."""
        deadline_ms = group.next_deadline_ms()
        if deadline_ms is not None and (group.queued_ms < 0 or deadline_ms < group.queued_ms):
            group.queued_ms = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, group.group_id, ""))

    def next_ms(self) -> int | None:
        """When to call `expired` next; may be early, never late."""
        return self._heap[0][0] if self._heap else None

    def expired(self, now_ms: int) -> Generator[DeadlineExpired, None, None]:
        """As `Shard.expired`."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, group_id, member_id = heapq.heappop(self._heap)
            group = self._group_of(group_id)
            if group is None:
                continue
            if not member_id:
                if isinstance(group, ConsumerGroup):
                    continue  # it was a classic one
                group.queued_ms = -1
                try:
                    if (group.next_deadline_ms() or now_ms + 1) <= now_ms:
                        yield DeadlineExpired(group_id)
                finally:
                    self.queue_group(group)
                continue
            holder = timed(group, member_id)
            if holder is None:
                continue
            if holder.deadline_ms > now_ms:
                self.queue(group_id, member_id, holder)
                continue
            holder.queued_ms = -1
            yield DeadlineExpired(group_id, member_id)

    def clear(self) -> None:
        self._heap.clear()
