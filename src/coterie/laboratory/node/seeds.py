"""Which story a seed of `lab fuzz --of clients` tells."""

from __future__ import annotations

from coterie.laboratory.fuzz import naming_seed, without_log_lines
from coterie.laboratory.node.consumer_story import ClientsReport, ConsumersStory
from coterie.laboratory.node.copying_story import CopyingStory
from coterie.laboratory.node.server_assigned_story import ServerAssignedCopyingStory, ServerAssignedStory

COPYING_FROM = 400_000
SERVER_ASSIGNED_FROM = 500_000
SERVER_ASSIGNED_COPYING_FROM = 600_000
_STORIES: dict[int, type[ConsumersStory]] = {
    SERVER_ASSIGNED_COPYING_FROM: ServerAssignedCopyingStory,
    SERVER_ASSIGNED_FROM: ServerAssignedStory,
    COPYING_FROM: CopyingStory,
    0: ConsumersStory,
}


def run_clients_seed(seed: int, minutes: float = 5.0) -> ClientsReport:
    """Runs one seed for so many virtual minutes. Raises FuzzFailure naming the seed."""
    with naming_seed(seed), without_log_lines():
        return _story(seed).run_clients(int(minutes * 60_000))


def _story(seed: int) -> ConsumersStory:
    return next(story for first, story in _STORIES.items() if seed >= first)(seed)
