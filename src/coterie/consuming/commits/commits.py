"""A consumer's commits, from the call to the result: what may be sent now, what is tried again and when, how each ends
(commitOffsetsSync and commitOffsetsAsync of Kafka's ConsumerCoordinator); and when one is due without a call
(enable.auto.commit: maybeAutoCommitOffsetsAsync and maybeAutoCommitOffsetsSync). No IO: a driver sends the requests.

Offsets reach the coordinator in the order of the calls. Asynchronous commits are tried once and may all be in flight; a
synchronous one, which is tried until its deadline, waits for those before it and holds back those after it, so that no repeated
request puts an offset back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from coterie.consuming.commits.offset_commit import RETRIED, CommitOffsets, Verdict, commit_request, first_error
from coterie.consuming.commits.verdicts import (
    Begun,
    CommitPurpose,
    GroupMachine,
    begun_in,
    call_verdict,
    may_auto_commit,
    may_commit,
    outdated_error,
    verdict,
)
from coterie.consuming.effects import LookUpCoordinator
from coterie.machines.backoff import Backoff, Retries
from coterie.machines.cluster_metadata import GROUP, ClusterMetadata
from coterie.member.consumer.machine import ConsumerMemberMachine
from coterie.wire.errors import ErrorCode
from coterie.wire.messages.groups.offset_commit import OffsetCommitRequest, OffsetCommitResponse

NOT_A_MEMBER = ("", -1)
Consumed = Callable[[], CommitOffsets]


class SendCommit(NamedTuple):
    """Send to that broker, then call `Commits.responded` or `Commits.request_failed`."""

    node_id: int
    request: OffsetCommitRequest
    token: int


class CommitEnded(NamedTuple):
    """The result of a commit, once for each. ``verdict`` is DONE, or says what kind of failure ``code`` is; ``message`` names
    the partition, or the time that was not enough."""

    token: int
    offsets: CommitOffsets
    verdict: Verdict
    code: ErrorCode
    message: str


CommitEffect = SendCommit | LookUpCoordinator | CommitEnded


@dataclass(slots=True)
class _Commit:
    token: int
    offsets: CommitOffsets
    begun: Begun
    started_ms: float = 0
    timeout_ms: float | None = None  # None: tried once
    purpose: CommitPurpose = CommitPurpose.CALL
    retries: Retries | None = None  # from the first failure on
    due_ms: float = float("-inf")

    @property
    def is_sync(self) -> bool:
        return self.timeout_ms is not None


class _Sent(NamedTuple):
    """A request without response yet; its commit may have ended at its deadline."""

    node_id: int
    member: GroupMachine | None
    identity: tuple[str, int]  # member id and generation


@dataclass(slots=True)
class Commits:
    """The commits of the group ``group_id``, made as ``member``, or by a consumer without membership (None). Times in ms of
    the driver's clock; ``jitter`` between -1 and 1."""

    known: ClusterMetadata
    group_id: str
    backoff: Backoff
    member: GroupMachine | None = None
    _tokens: int = 0
    _waiting: deque[_Commit] = field(default_factory=deque)
    _under_way: dict[int, _Commit] = field(default_factory=dict)
    _requests: dict[int, _Sent] = field(default_factory=dict)
    _deadlines_ms: dict[int, float] = field(default_factory=dict)  # of synchronous commits
    _is_looking_up: bool = False
    is_fenced: bool = False  # by an asynchronous commit: another process has the group.instance.id
    _effects: list[CommitEffect] = field(default_factory=list)

    # -- inputs -------------------------------------------------------------------------------------------------------

    def commit(
        self,
        offsets: CommitOffsets,
        now_ms: float,
        timeout_ms: float,
        purpose: CommitPurpose = CommitPurpose.CALL,
    ) -> int:
        """Begins a synchronous commit; the token names it in effects and inputs."""
        token = self._next_token()
        commit = _Commit(token, offsets, begun_in(self.member), now_ms, timeout_ms, purpose)
        self._waiting.append(commit)
        self._deadlines_ms[token] = now_ms + timeout_ms
        return token

    def commit_async(self, offsets: CommitOffsets) -> int:
        """Begins a commit that is tried once."""
        token = self._next_token()
        self._waiting.append(_Commit(token, offsets, begun_in(self.member)))
        return token

    def _next_token(self) -> int:
        self._tokens += 1
        return self._tokens

    def cancel(self, token: int) -> None:
        """The caller no longer waits: the commit is not sent again, and has no result. Ended ones are left alone."""
        self._under_way.pop(token, None)
        self._deadlines_ms.pop(token, None)
        self._waiting = deque(commit for commit in self._waiting if commit.token != token)

    def __contains__(self, token: int) -> bool:
        """Whether the commit is under way, in flight."""
        return token in self._under_way

    def coordinator_looked_up(self, code: ErrorCode, now_ms: float, jitter: float, *, is_final: bool = False) -> None:
        """NONE: the coordinator is in the cluster's metadata. An error ends the commits that were tried once, and is one
        failed attempt of a synchronous commit; ``is_final``: the last, since no other can succeed, whatever the code."""
        self._is_looking_up = False
        while code and self._waiting and not self._is_held_back():
            commit = self._waiting.popleft()
            what = Verdict.GIVE_UP if is_final else verdict(None, code, NOT_A_MEMBER)
            self._failed(commit, what, code, "", now_ms, jitter)
            if commit.is_sync:
                return

    def responded(self, token: int, response: OffsetCommitResponse, now_ms: float, jitter: float) -> Verdict:
        """The response to `SendCommit`, also when the commit has ended meanwhile. The verdict has been applied to the member
        and to the cluster's metadata."""
        code, partition = first_error(response)
        return self._received(token, code, partition, now_ms, jitter, False)

    def request_failed(
        self, token: int, code: ErrorCode, now_ms: float, jitter: float, *, is_final: bool = False
    ) -> Verdict:
        """No response will come; ``code`` is NETWORK_EXCEPTION, REQUEST_TIMED_OUT or another of the driver's.
        ``is_final`` as in `coordinator_looked_up`."""
        return self._received(token, code, "", now_ms, jitter, is_final)

    def request_abandoned(self, token: int) -> None:
        """The driver gave the request up, after the end of its commit: nothing is known of the coordinator."""
        self._requests.pop(token, None)

    def _received(
        self, token: int, code: ErrorCode, partition: str, now_ms: float, jitter: float, is_final: bool
    ) -> Verdict:
        sent = self._requests.pop(token)
        what = verdict(sent.member, code, sent.identity)
        if what == Verdict.FIND_COORDINATOR and self.known.coordinator(self.group_id, GROUP) == sent.node_id:
            self.known.forget_coordinator(self.group_id, GROUP)
        commit = self._under_way.pop(token, None)
        if commit is not None:
            if what == Verdict.GIVE_UP and code == ErrorCode.FENCED_INSTANCE_ID and not commit.is_sync:
                self.is_fenced = True
            is_unknown = what == Verdict.COMMIT_FAILED and sent.identity[1] < 0
            code = ErrorCode.UNKNOWN_MEMBER_ID if is_unknown else code
            of_call = call_verdict(what, code, commit.purpose)
            self._failed(commit, Verdict.GIVE_UP if is_final else of_call, code, partition, now_ms, jitter)
        return what

    # -- what follows -------------------------------------------------------------------------------------------------

    def next(self, now_ms: float) -> list[CommitEffect]:
        """The effects that are due; each is returned once."""
        self._send(now_ms)
        if self._expire(now_ms):
            self._send(now_ms)
        effects, self._effects = self._effects, []
        return effects

    def next_deadline_ms(self) -> float | None:
        """When to call `next` although no input came; None: only after an input."""
        if not self._deadlines_ms and not self._waiting:
            return None
        times_ms = list(self._deadlines_ms.values())
        if self._waiting and not self._is_held_back() and not self._is_looking_up:
            times_ms.append(self._waiting[0].due_ms)
        return min(times_ms, default=None)

    def _is_held_back(self) -> bool:
        """Whether what waits first must wait for what is under way."""
        if not self._under_way:
            return False
        return self._waiting[0].is_sync or next(iter(self._under_way.values())).is_sync

    def _send(self, now_ms: float) -> None:
        while self._waiting and not self._is_held_back():
            commit = self._waiting[0]
            is_late = commit.due_ms > float("-inf") and self._deadlines_ms[commit.token] <= now_ms
            if commit.due_ms > now_ms or is_late:
                return
            refusal = self._refusal(commit)
            if refusal is not None:
                self._waiting.popleft()
                self._end(commit, *refusal)
                continue
            node_id = self.known.coordinator(self.group_id, GROUP)
            if node_id is None:
                if not self._is_looking_up:
                    self._is_looking_up = True
                    self._effects.append(LookUpCoordinator())
                return
            self._waiting.popleft()
            self._under_way[commit.token] = commit
            self._effects.append(SendCommit(node_id, self._request(commit, node_id), commit.token))

    def _refusal(self, commit: _Commit) -> tuple[Verdict, ErrorCode] | None:
        """How the commit ends without a request; None: it may be sent."""
        if not commit.offsets:
            return Verdict.DONE, ErrorCode.NONE
        if self.is_fenced and not commit.is_sync:
            return Verdict.GIVE_UP, ErrorCode.FENCED_INSTANCE_ID
        may = Verdict.DONE if self.member is None else may_commit(self.member)
        if may == Verdict.DONE:
            outdated = outdated_error(self.member, commit.begun, commit.offsets)
            return (Verdict.COMMIT_FAILED, outdated) if outdated else None
        is_unknown = may == Verdict.COMMIT_FAILED and self.member is not None and self.member.generation < 0
        return may, ErrorCode.UNKNOWN_MEMBER_ID if is_unknown else ErrorCode.REBALANCE_IN_PROGRESS

    def _request(self, commit: _Commit, node_id: int) -> OffsetCommitRequest:
        member, identity, instance_id = self.member, NOT_A_MEMBER, None
        if member is not None:
            identity = (member.member_id, member.generation)
            instance_id = member.config.group_instance_id if member.member_id else None
        self._requests[commit.token] = _Sent(node_id, member, identity)
        return commit_request(self.group_id, commit.offsets, identity[1], identity[0], instance_id)

    def _failed(
        self, commit: _Commit, what: Verdict, code: ErrorCode, message: str, now_ms: float, jitter: float
    ) -> None:
        """Ends the commit, or has a synchronous one tried again after a pause, before any other."""
        if commit.timeout_ms is None or what not in RETRIED:
            self._end(commit, what, code, message)
            return
        commit.retries = commit.retries or Retries(self.backoff, commit.started_ms)
        pause_ms = commit.retries.failed(now_ms, commit.timeout_ms, jitter)
        commit.due_ms = now_ms + (pause_ms or 0)
        self._waiting.appendleft(commit)

    def _expire(self, now_ms: float) -> bool:
        if not self._deadlines_ms:
            return False
        expired = [token for token, deadline_ms in self._deadlines_ms.items() if deadline_ms <= now_ms]
        for token in expired:
            commit = self._under_way.get(token) or next(c for c in self._waiting if c.token == token)
            self.cancel(token)
            assert commit.timeout_ms is not None, "an asynchronous commit has no deadline"
            text = f"the commit was not made within {commit.timeout_ms / 1000:g} s"
            self._end(commit, Verdict.TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT, text)
        return bool(expired)

    def _end(self, commit: _Commit, what: Verdict, code: ErrorCode, message: str = "") -> None:
        self._deadlines_ms.pop(commit.token, None)
        self._effects.append(CommitEnded(commit.token, commit.offsets, what, code, message))


@dataclass(slots=True)
class AutoCommitSchedule:
    """One asynchronous commit every ``interval_ms`` (None: none at all), at most one under way; one that fails for a cause
    that passes is made up for after a pause, by a member of the consumer protocol at the next interval (its
    CommitRequestManager). ``consumed()`` gives the positions. Times in ms."""

    commits: Commits
    interval_ms: float | None
    next_ms: float = float("inf")
    token: int | None = None  # of the commit under way
    _retries: Retries | None = None

    def restart(self, now_ms: float) -> None:
        """The next commit is due after the whole interval."""
        if self.interval_ms is not None:
            self.next_ms = now_ms + self.interval_ms

    def poll(self, consumed: Consumed, now_ms: float) -> int | None:
        """Begins the commit that is due, and returns its token. While the member has no generation of its own none is made,
        and the interval begins again."""
        if self.token is not None or now_ms < self.next_ms:
            return None
        self.restart(now_ms)
        member, offsets = self.commits.member, consumed()
        if offsets and (member is None or may_auto_commit(member)):
            self.token = self.commits.commit_async(offsets)
        return self.token

    def commit_now(self, consumed: Consumed, now_ms: float, timeout_ms: float) -> int | None:
        """Begins the synchronous commit before partitions are given up; None where there is none to make. Its failure is no
        error: the next owner starts at the commit before."""
        offsets = consumed()
        if self.interval_ms is None or not offsets:
            return None
        return self.commits.commit(offsets, now_ms, timeout_ms, CommitPurpose.REVOCATION)

    def give_up(self, consumed: Consumed) -> int | None:
        """Begins the asynchronous commit of positions that another assignment replaces without a rebalance."""
        offsets = consumed()
        return self.commits.commit_async(offsets) if self.interval_ms is not None and offsets else None

    def ended(self, result: CommitEnded, now_ms: float, jitter: float) -> None:
        """A commit has ended, whether of this schedule or not."""
        if result.token != self.token:
            return
        self.token = None
        if result.verdict == Verdict.DONE:
            self._retries = None
        elif result.verdict in RETRIED and not isinstance(self.commits.member, ConsumerMemberMachine):
            self._retries = self._retries or Retries(self.commits.backoff, now_ms)
            self.next_ms = now_ms + (self._retries.failed(now_ms, float("inf"), jitter) or 0)
