"""Ring 1, values: (members, partition counts) -> assignment. `ASSIGNORS` lists them by the name that goes over the wire."""

from __future__ import annotations

from coterie.assignors.range import assign_range
from coterie.assignors.round_robin import assign_round_robin
from coterie.assignors.subscription import Assignor

ASSIGNORS: dict[str, Assignor] = {"range": assign_range, "roundrobin": assign_round_robin}

__all__ = ["ASSIGNORS", "Assignor", "assign_range", "assign_round_robin"]
