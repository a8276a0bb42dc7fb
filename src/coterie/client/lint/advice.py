"""The values that `Admin.lint_group` returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One observation of a rule about a change: ``blocks`` where the change cannot be made while it holds, ``next_step`` in one
    sentence, and the members that it concerns, by group.instance.id or member id (none: the group as a whole)."""

    rule: str
    blocks: bool
    text: str
    next_step: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """A change of how a group rebalances: whether it is safe now, why (or why not), the members that block it, by
    group.instance.id or member id, and, of a change between the classic and the consumer protocol (KIP-848), the findings of
    its rules."""

    change: str
    safe: bool
    why: str
    blocked_by: tuple[str, ...] = ()
    findings: tuple[LintFinding, ...] = ()
