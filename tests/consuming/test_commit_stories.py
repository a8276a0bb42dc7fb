"""Commits beside a network and a group that do anything: stories of calls, responses, losses, lookups, rebalances and time.
What must hold is checked after every step."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from coterie.consuming.commits.commits import CommitEnded, SendCommit
from coterie.consuming.commits.offset_commit import Verdict
from coterie.consuming.commits.verdicts import may_commit
from coterie.consuming.effects import LookUpCoordinator
from coterie.wire.errors import ErrorCode
from tests.consuming.test_commits import commits, know_coordinator, response
from tests.member.driven import Driven

CODES = (
    ErrorCode.NONE,
    ErrorCode.NONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
)
LOST = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
LOOKUPS = (ErrorCode.NONE, ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.GROUP_AUTHORIZATION_FAILED)
MOVES = ("async", "sync", "sync", "answer", "answer", "lose", "look-up", "look-up", "wait", "cancel", "rejoin", "moved")
TIMEOUTS_MS = (0, 150, 1_000, 5_000)


class Story:
    """``is_member`` False: a consumer without membership."""

    def __init__(self, is_member: bool) -> None:
        self.driven = Driven() if is_member else None
        if self.driven is not None:
            self.driven.to_stable([0])
        self.machine = commits(self.driven, is_known=False)
        self.now_ms = 0.0
        self.open: dict[int, float | None] = {}  # token -> deadline of a synchronous commit
        self.begun: dict[int, int] = {}  # token -> generation
        self.requests: list[int] = []  # the commits of requests without response
        self.acknowledged: set[int] = set()
        self.newest_sent = 0
        self.sent: set[int] = set()
        self.lookups = 0

    def step(self, move: str, number: int) -> None:
        machine, jitter = self.machine, (number % 3) - 1
        match move:
            case "async":
                self._begin(machine.commit_async({("t", 0): len(self.open)}), None)
            case "sync":
                timeout_ms = TIMEOUTS_MS[number % len(TIMEOUTS_MS)]
                self._begin(machine.commit({("t", 0): 0}, self.now_ms, timeout_ms), self.now_ms + timeout_ms)
            case "answer" if self.requests:
                token = self._request(number)
                code = CODES[number % len(CODES)]
                if code == ErrorCode.NONE:
                    self.acknowledged.add(token)
                machine.responded(token, response(code), self.now_ms, jitter)
            case "lose" if self.requests:
                machine.request_failed(self._request(number), LOST[number % len(LOST)], self.now_ms, jitter)
            case "look-up" if self.lookups:
                self.lookups -= 1
                code = LOOKUPS[number % len(LOOKUPS)]
                if code == ErrorCode.NONE:
                    know_coordinator(machine.known, number % 2)
                machine.coordinator_looked_up(code, self.now_ms, jitter)
            case "wait":
                self.now_ms += (1, 99, 400, 2_000)[number % 4]
            case "cancel" if self.open:
                token = list(self.open)[number % len(self.open)]
                del self.open[token]
                machine.cancel(token)
            case "rejoin" if self.driven is not None:
                for _ in range(1 + number % 5):  # five are a whole rebalance
                    self._rejoin(self.driven)
            case "moved":
                machine.known.forget_leaders()
        self.pump()

    def _begin(self, token: int, deadline_ms: float | None) -> None:
        self.open[token] = deadline_ms
        self.begun[token] = -1 if self.driven is None else self.driven.machine.generation

    def _request(self, number: int) -> int:
        return self.requests.pop(number % len(self.requests))

    def _rejoin(self, driven: Driven) -> None:
        """One step of a rebalance."""
        member = driven.machine
        member.polled(driven.now_ms)
        member.rejoin("the story wants it")
        for effect in driven.next():
            match type(effect).__name__:
                case "FindCoordinator":
                    member.coordinator_found()
                case "Revoke":
                    member.revoked()
                case "Send":
                    request = effect.request  # type: ignore[union-attr]
                    if type(request).__name__ == "JoinGroupRequest":
                        driven.respond(request, driven.joined(member.generation + 2))
                    elif type(request).__name__ == "SyncGroupRequest":
                        driven.synced(request, [0])

    def pump(self) -> None:
        machine = self.machine
        for effect in machine.next(self.now_ms):
            match effect:
                case SendCommit(token=token, request=request):
                    assert token >= self.newest_sent, "a commit was sent after a later one"
                    self.newest_sent = token
                    deadline_ms = self.open[token]
                    assert token not in self.sent or deadline_ms is not None, "an asynchronous commit was repeated"
                    in_time = deadline_ms is None or self.now_ms < deadline_ms
                    assert in_time or token not in self.sent, "a commit was repeated after its deadline"
                    self.sent.add(token)
                    before = [t for t in self.open if t < token]
                    if deadline_ms is not None:
                        assert not before, "a synchronous commit did not wait for those before it"
                    assert not [t for t in before if self.open[t] is not None], "one overtook a synchronous commit"
                    assert request.generation_id_or_member_epoch == self.begun[token], "made in a later generation"
                    self._check_identity(request.member_id, request.generation_id_or_member_epoch)
                    self.requests.append(token)
                case LookUpCoordinator():
                    self.lookups += 1
                    assert self.lookups == 1, "two lookups at once"
                case CommitEnded(token=token, verdict=verdict):
                    assert token in self.open, "a commit ended twice, or after it was cancelled"
                    del self.open[token]
                    assert (verdict == Verdict.DONE) <= (token in self.acknowledged)
        self._check_progress()

    def _check_identity(self, member_id: str, generation: int) -> None:
        if self.driven is None:
            assert (member_id, generation) == ("", -1)
        else:
            member = self.driven.machine
            assert may_commit(member) == Verdict.DONE
            assert (member_id, generation) == (member.member_id, member.generation)

    def _check_progress(self) -> None:
        late = [
            token for token, deadline_ms in self.open.items() if deadline_ms is not None and deadline_ms <= self.now_ms
        ]
        assert not late, f"commits {late} are open after their deadline"
        due_ms = self.machine.next_deadline_ms()
        assert due_ms is None or due_ms > self.now_ms, "the driver would come back at once, for nothing"
        is_moving = self.lookups or due_ms is not None or set(self.requests) & set(self.open)
        assert is_moving or not self.open, f"commits {list(self.open)} wait for nothing"

    def finish(self) -> None:
        """Everything is answered from now on: every commit ends."""
        for _ in range(1_000):
            if not self.open:
                return
            while self.requests:
                token = self.requests.pop()
                self.acknowledged.add(token)
                self.machine.responded(token, response(), self.now_ms, 0)
            if self.lookups:
                self.lookups = 0
                know_coordinator(self.machine.known)
                self.machine.coordinator_looked_up(ErrorCode.NONE, self.now_ms, 0)
            self.now_ms += 100
            self.pump()
        raise AssertionError(f"commits {list(self.open)} never end")


@settings(max_examples=400, derandomize=True)
@given(
    is_member=st.booleans(),
    moves=st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 119)), min_size=5, max_size=60),
)
def test_stories(is_member: bool, moves: list[tuple[str, int]]) -> None:
    story = Story(is_member)
    for move, number in moves:
        story.step(move, number)
    story.finish()
