"""An explanation of a group as a broker makes it, of made-up members."""

from __future__ import annotations

from typing import Any


def explanation(group: str, members: int = 3, partitions: int = 6, **changes: Any) -> dict[str, Any]:
    """Stable, with the partitions owned in turn; the last one has most lag."""
    ids = [f"client-{n}-1c9e2f30-0000-4000-8000-{n:012}" for n in range(members)]
    made: dict[str, Any] = {
        "group": group,
        "state": "Stable",
        "in_state_ms": 5_000,
        "generation": 3,
        "protocol_type": "consumer",
        "protocol": "range",
        "leader": ids[0] if ids else None,
        "waiting_for": [],
        "next_timeout": {
            "name": "session timeout",
            "member_id": ids[0],
            "left_ms": 9_000,
            "then": "the member is removed",
        }
        if ids
        else None,
        "verdict": f"no rebalance is under way: generation 3 has {members} members",
        "members": [
            {
                "member_id": member_id,
                "group_instance_id": None,
                "client_id": f"client-{n}",
                "assignors": ["range"],
                "host": "/127.0.0.1",
                "leader": n == 0,
                "waits_in": None,
                "last_heard_ms": 500,
                "session_timeout_ms": 10_000,
                "session_left_ms": 9_500 if n else 2_000,
                "rebalance_timeout_ms": 60_000,
                "last_fetch_ms": 200,
                "client_software": "coterie 0.1.0",
                "heartbeat_interval_ms": 3_000,
            }
            for n, member_id in enumerate(ids)
        ],
        "reserved_ids": [],
        "partitions": [
            {
                "topic": "orders",
                "partition": n,
                "owner": ids[n % members] if ids else None,
                "committed": 100 + n,
                "end": 100 + 3 * n,
                "lag": 2 * n,
                "unmoved_ms": 0,
                "stalled": False,
                "lag_ms": 40 * n,
            }
            for n in range(partitions)
        ],
        "lag": partitions * (partitions - 1),
        "lag_ms": 40 * (partitions - 1),
        "stalled": [],
        "unseen": None,
    }
    return made | changes
