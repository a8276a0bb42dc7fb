"""What a member of the consumer protocol requests of its driver, beside what a classic one does."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.member.effects import Assigned, Failed, FindCoordinator, Revoke, Send
from coterie.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class LookUpTopics:
    """Request the metadata of these topic ids, then call `topics_looked_up`."""

    topic_ids: frozenset[bytes]


@dataclass(frozen=True, slots=True)
class Complain:
    """The caller must hear of this once; the member goes on."""

    code: ErrorCode
    message: str


ConsumerEffect = FindCoordinator | Send | Revoke | Assigned | Failed | LookUpTopics | Complain
