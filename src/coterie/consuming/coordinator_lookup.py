"""The effect of every machine that needs the group's coordinator."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LookUpCoordinator:
    """Find the group's coordinator, put it into the cluster's metadata, then call the machine's ``coordinator_looked_up``."""
