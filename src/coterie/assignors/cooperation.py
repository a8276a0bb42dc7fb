"""The check of a cooperative assignment: no partition goes to one member while another still owns it (KIP-429)."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.assignors.subscription import Assignment, Subscriber


def handed_over(subscribers: Sequence[Subscriber], assignments: Assignment) -> tuple[str, int] | None:
    """The first partition that moves between two members in one step, if any does."""
    holders = {(t, p): s.member_id for s in subscribers for t, ps in s.owned.items() for p in ps}
    for member_id, share in assignments.items():
        for topic, partitions in share.items():
            for partition in partitions:
                if holders.get((topic, partition), member_id) != member_id:
                    return topic, partition
    return None
