"""Queue locks beside a model: a queue has one holder, from its last request for at most 60 s."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from coterie.rocketmq.allocation import MessageQueue
from coterie.rocketmq.queue_locks import LOCK_MAX_LIVE_MS, QueueLocks

QUEUES = [MessageQueue("t", "b", number) for number in range(3)]
steps = st.tuples(
    st.booleans(),
    st.sampled_from(["g", "h"]),
    st.sampled_from(["c1", "c2", "c3"]),
    st.sets(st.sampled_from(QUEUES)),
    st.sampled_from([0, 1, LOCK_MAX_LIVE_MS - 1, LOCK_MAX_LIVE_MS, LOCK_MAX_LIVE_MS + 1]),
)


@given(st.lists(steps, max_size=20))
@example([(True, "g", "c1", set(QUEUES), 0), (True, "g", "c2", set(QUEUES), LOCK_MAX_LIVE_MS)])
def test_locks_are_granted_and_expire_as_in_the_model(
    course: list[tuple[bool, str, str, set[MessageQueue], int]],
) -> None:
    locks, now_ms = QueueLocks(), 0
    held: dict[tuple[str, MessageQueue], tuple[str, int]] = {}
    for locking, group, client, queues, pause_ms in course:
        now_ms += pause_ms
        mine = {q for q in queues if held.get((group, q), (client, 0))[0] == client}
        if locking:
            expired = {q for q in queues - mine if now_ms - held[group, q][1] > LOCK_MAX_LIVE_MS}
            assert locks.lock(group, client, queues, now_ms) == mine | expired
            held |= {(group, q): (client, now_ms) for q in mine | expired}
        else:
            locks.unlock(group, client, queues)
            held = {key: value for key, value in held.items() if key[0] != group or key[1] not in mine}
        for g in ("g", "h"):
            for q in QUEUES:
                holder, since_ms = held.get((g, q), (None, now_ms))
                assert locks.holder(g, q, now_ms) == (holder if now_ms - since_ms <= LOCK_MAX_LIVE_MS else None)
