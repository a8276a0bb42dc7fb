"""The states of a record of a share group, and the one table of what moves it from one to the next (KIP-932, KIP-1191).

The table is Kafka's RecordState and InFlightState. A row with ``at_limit`` ends there when the record was delivered as often as
the group allows: to release it would deliver it once too often.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, auto


class RecordState(IntEnum):
    """As it is kept: the number is that of `WriteShareGroupState`."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # on its way to the dead letters
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        """Whether the start offset may pass such a record."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class RecordCause(Enum):
    """What happens to a record."""

    FETCHED = auto()  # a member acquires it
    ACCEPTED = auto()
    RELEASED = auto()  # acknowledged so, or its member has left
    REJECTED = auto()
    NO_RECORD = auto()  # the offset has none: compacted, or a control record
    EXPIRED = auto()  # its acquisition lock
    ABORTED = auto()  # its transaction, seen by a reader of committed records
    DELETED = auto()  # from the log: the log start offset has passed it, or compaction took it
    BURIED = auto()  # written to the dead letter topic, or given up


@dataclass(frozen=True, slots=True)
class StateRow:
    """One row: ``after`` follows ``before``, ``at_limit`` where no delivery is left. ``dead_letter``: where the group keeps
    them, an archived record is written there first."""

    cause: RecordCause
    before: RecordState
    after: RecordState
    at_limit: RecordState | None = None
    dead_letter: bool = False


_A, _Q, _D = RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ARCHIVED
TRANSITIONS: dict[tuple[RecordCause, RecordState], StateRow] = {
    (row.cause, row.before): row
    for row in (
        StateRow(RecordCause.FETCHED, _A, _Q),
        StateRow(RecordCause.ACCEPTED, _Q, RecordState.ACKNOWLEDGED),
        StateRow(RecordCause.RELEASED, _Q, _A, at_limit=_D, dead_letter=True),
        StateRow(RecordCause.REJECTED, _Q, _D, dead_letter=True),
        StateRow(RecordCause.NO_RECORD, _Q, _D),
        StateRow(RecordCause.EXPIRED, _Q, _A, at_limit=_D, dead_letter=True),
        StateRow(RecordCause.ABORTED, _Q, _D),
        StateRow(RecordCause.DELETED, _A, _D),
        StateRow(RecordCause.DELETED, _Q, _D),  # released below the start offset
        StateRow(RecordCause.BURIED, RecordState.ARCHIVING, _D),
    )
}

# The acknowledge types of the protocol. A renewal moves no record: it gives a new lock.
ACKNOWLEDGEMENTS: dict[int, RecordCause] = {
    0: RecordCause.NO_RECORD,
    1: RecordCause.ACCEPTED,
    2: RecordCause.RELEASED,
    3: RecordCause.REJECTED,
}
RENEW = 4


def next_state(cause: RecordCause, before: RecordState, *, at_limit: bool, dead_letters: bool) -> RecordState:
    """The state after ``cause``. Raises KeyError where the table has no such row: the caller has looked at the state."""
    row = TRANSITIONS[cause, before]
    after = row.at_limit if at_limit and row.at_limit is not None else row.after
    return RecordState.ARCHIVING if row.dead_letter and dead_letters and after is RecordState.ARCHIVED else after
