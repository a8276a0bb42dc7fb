"""The result of an append to a log."""

from __future__ import annotations

from coterie.machines.values import value


@value
class Appended:
    """The result of an append: its offsets, the append time (-1 for CreateTime), and whether it was a repeat (then
    the time is that of the first batch)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool = False
