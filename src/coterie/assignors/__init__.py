"""Ring 1, values: (members, topics) -> assignment. `ASSIGNORS` lists them by the name that goes over the wire."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.assignors.assignor import (
    AssignableTopics,
    AssignFunction,
    Assignment,
    Assignor,
    AssignorSpec,
    Owned,
    RebalanceProtocol,
    Subscriber,
)
from coterie.assignors.range_and_round_robin import assign_range, assign_round_robin
from coterie.assignors.sticky import (
    assign_cooperative_sticky,
    assign_sticky,
    encode_cooperative_user_data,
    encode_sticky_user_data,
)

_EAGER, _BOTH = frozenset({RebalanceProtocol.EAGER}), frozenset(RebalanceProtocol)

ASSIGNORS: dict[str, AssignorSpec] = {
    "range": AssignorSpec(assign_range),
    "roundrobin": AssignorSpec(assign_round_robin),
    "sticky": AssignorSpec(assign_sticky, _EAGER, encode_sticky_user_data),
    "cooperative-sticky": AssignorSpec(assign_cooperative_sticky, _BOTH, encode_cooperative_user_data, True),
}

COOPERATIVE_ASSIGNORS = tuple(name for name, spec in ASSIGNORS.items() if spec.is_cooperative)


def is_cooperative(name: str | None) -> bool:
    """Whether the assignor of that name is cooperative; one that is not known here counts as eager."""
    spec = ASSIGNORS.get(name or "")
    return spec is not None and spec.is_cooperative


def protocol_of(names: tuple[str, ...], specs: Mapping[str, AssignorSpec] = ASSIGNORS) -> RebalanceProtocol | None:
    """The protocol in force for a member that lists these assignors: the highest that all of them have, None where
    they share none (testSelectRebalanceProtcol; ConsumerCoordinator)."""
    shared = _BOTH.intersection(*(specs[n].protocols for n in names))
    return max(shared, default=None)


__all__ = [
    "ASSIGNORS",
    "AssignFunction",
    "AssignableTopics",
    "COOPERATIVE_ASSIGNORS",
    "Assignment",
    "Assignor",
    "AssignorSpec",
    "Owned",
    "RebalanceProtocol",
    "Subscriber",
    "assign_cooperative_sticky",
    "assign_range",
    "assign_round_robin",
    "assign_sticky",
    "is_cooperative",
    "protocol_of",
]
