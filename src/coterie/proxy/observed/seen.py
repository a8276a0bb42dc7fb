"""A request of a group's member, as it passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coterie.coordinator.outcome import Context, CoordinatorConfig
from coterie.wire.errors import ErrorCode

# What the coordinator accepts or refuses by its settings shows in its responses.
ANY_CONFIG = CoordinatorConfig(group_min_session_timeout_ms=0, group_max_session_timeout_ms=2**31 - 1)


@dataclass(slots=True, eq=False)
class SeenRequest:
    """``sent_ms``: when it went to the coordinator."""

    request: Any
    api_version: int
    client_id: str
    client_host: str
    sent_ms: int

    def context(self, now_ms: int, member_id: str = "") -> Context:
        """As the coordinator has it; ``member_id``: the one that it gave to a newcomer."""
        prefix = getattr(self.request, "group_instance_id", None) or self.client_id
        return Context(
            now_ms,
            token=self,
            fresh_id=member_id.removeprefix(f"{prefix}-"),
            api_version=self.api_version,
            client_id=self.client_id,
            client_host=self.client_host,
        )


def error_code(response: Any) -> int:
    """Of a response with one error, or, of a commit, the first partition's."""
    if hasattr(response, "error_code"):
        return int(response.error_code)
    return next((p.error_code for t in response.topics for p in t.partitions), int(ErrorCode.NONE))
