"""The requests to a broker of the laboratory, in the language of tests/spec; and making a failing story short.

Member ids become a-1, a-2, ... in the order in which they were given, just as `ScenarioRun` gives them, so that a
recorded story runs there as it ran here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from coterie.assignors.blobs import decode_subscription
from coterie.coordinator import events as e
from coterie.coordinator.commands import Command
from coterie.coordinator.outcome import Context
from coterie.coordinator.shard import Step
from coterie.wire.messages.groups.heartbeat import HeartbeatRequest
from coterie.wire.messages.groups.join_group import JoinGroupRequest
from coterie.wire.messages.groups.leave_group import LeaveGroupRequest
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest
from coterie.wire.messages.groups.sync_group import SyncGroupRequest
from coterie_conformance.scenarios.groups.scenario import ScenarioError, ScenarioRun

SHRINK_RUNS = 400  # each runs a story: a bound on the time that shrinking takes


class Recorder:
    """Collects lines; ``lines`` begins with the settings of the story's broker."""

    def __init__(self, config: dict[str, int]) -> None:
        self.lines = ["config " + " ".join(f"{name}={value}" for name, value in config.items())]
        self._last_ms: int | None = None
        self._symbols: dict[str, str] = {}
        self._given: dict[str, int] = {}

    def asked(self, command: Command, ctx: Context) -> None:
        """Notes a request as a line of the scenario."""
        line = self._say(command, ctx)
        if line:
            self._advance(ctx.now_ms)
            self.lines.append(line)

    def happened(self, step: Step) -> None:
        """Learns which ids were given."""
        event = step.event
        member_id = None
        if isinstance(event, e.MemberIdReserved):
            member_id = event.member_id
        elif isinstance(event, e.MemberJoined | e.StaticMemberReplaced):
            member_id = event.member.member_id
        if member_id is not None and member_id not in self._symbols:
            prefix = member_id.rpartition("-")[0]
            self._given[prefix] = self._given.get(prefix, 0) + 1
            self._symbols[member_id] = f"{prefix}-{self._given[prefix]}"

    def append_failed(self) -> None:
        """The records of the last step could not be stored."""
        self.lines.insert(len(self.lines) - 1, "fail-append KAFKA_STORAGE_ERROR")

    def restarted(self, now_ms: int) -> None:
        self._advance(now_ms)
        self.lines.append("restart")

    def ended(self, now_ms: int) -> None:
        """The story broke off at that time, perhaps by a deadline."""
        self._advance(now_ms)

    def _advance(self, now_ms: int) -> None:
        if self._last_ms is not None and now_ms > self._last_ms:
            self.lines.append(f"advance {now_ms - self._last_ms}")
        self._last_ms = now_ms

    def _who(self, member_id: str) -> str:
        return self._symbols.get(member_id, member_id) or "-"

    def _say(self, command: Command, ctx: Context) -> str:
        static = getattr(command, "group_instance_id", None)
        named = f" instance={static}" if static else ""
        version = f" version={ctx.api_version}"
        match command:
            case JoinGroupRequest():
                protocols = ",".join(f"{p.name}:{_subscription(p.metadata)}" for p in command.protocols)
                times = f"session={command.session_timeout_ms} rebalance={command.rebalance_timeout_ms}"
                member = self._who(command.member_id)
                return f"join {ctx.client_id} member={member}{named} protocols={protocols} {times}{version}"
            case SyncGroupRequest():
                shares = ",".join(f"{self._who(a.member_id)}:x" for a in command.assignments)
                assign = f" assign={shares}" if shares else ""
                member = self._who(command.member_id)
                return f"sync {ctx.client_id} member={member}{named} generation={command.generation_id}{assign}"
            case HeartbeatRequest():
                member = self._who(command.member_id)
                return f"heartbeat {ctx.client_id} member={member}{named} generation={command.generation_id}"
            case LeaveGroupRequest():
                who = ",".join(
                    self._who(m.member_id) + (f"/{m.group_instance_id}" if m.group_instance_id else "")
                    for m in command.members
                )
                return f"leave {ctx.client_id} members={who}"
            case OffsetCommitRequest():
                offsets = " ".join(
                    f"{t.name}-{p.partition_index}={p.committed_offset}" for t in command.topics for p in t.partitions
                )
                who = f"member={self._who(command.member_id)}{named}"
                return f"commit {ctx.client_id} {who} generation={command.generation_id_or_member_epoch} {offsets}"
            case _:
                return ""


def _subscription(metadata: bytes) -> str:
    read = decode_subscription(metadata)
    generation = f"@{read.generation}" if read.generation >= 0 else ""
    return "+".join(sorted(read.topics)) + generation


def failure_of(lines: list[str]) -> str:
    """The failure of a story when it is run as a scenario; "" without one."""
    run = ScenarioRun()
    try:
        for line in lines:
            run.step(line)
    except (ScenarioError, ValueError, KeyError):
        return ""  # shortened until it made no sense
    except AssertionError as error:
        return str(error) or "an assertion without words"
    return ""


def shrink(lines: list[str], fails: Callable[[list[str]], str] = failure_of) -> list[str]:
    """The shortest story found that still breaks the same rule: parts are left out, ever smaller ones, while it does."""
    rule = _words(fails(lines))
    with suppress(IndexError):
        while _words(fails(lines[:-1])) == rule:
            lines = lines[:-1]
    runs, size = 0, max(len(lines) // 2, 1)
    while size and runs < SHRINK_RUNS:
        at = 0
        while at < len(lines) and runs < SHRINK_RUNS:
            shorter = lines[:at] + lines[at + size :]
            runs += 1
            if _words(fails(shorter)) == rule:
                lines = shorter
            else:
                at += size
        size //= 2
    return lines


def _words(failure: str) -> list[str]:
    """A failure without its numbers and names, which other lines may change."""
    first_line = failure.partition("\n")[0]
    return [word for word in first_line.split() if word.isalpha()]
