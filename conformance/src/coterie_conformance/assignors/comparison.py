"""Our assignors beside Apache Kafka's own Java classes, on seeded random inputs: groups that grow, shrink and change.

Range and round robin must give the same, partition for partition. The sticky ones must be valid, never worse balanced,
and where the balance is the same, never move more. The balance of an assignment is the sum over members of the square
of what each has, which is lowest where no partition could go from one to another with two fewer.
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol

from coterie.assignors import ASSIGNORS, AssignableTopics, Assignment, Owned, Subscriber
from coterie.assignors.sticky import encode_sticky_user_data
from coterie_conformance.servers.kafka import jars

JAVA_LIMIT_S = 60.0
RACKS = ("r1", "r2", "r3")


class AssignorQuestion(Protocol):
    """What a Java program is asked, in lines."""

    def lines(self) -> Iterator[str]: ...


@dataclass(frozen=True, slots=True)
class AssignmentCase:
    """One question: an assignor, the topics, the members."""

    assignor: str
    topics: AssignableTopics
    members: tuple[Subscriber, ...]

    def lines(self) -> Iterator[str]:
        """The case as the input line of `Assign.java`."""
        yield f"assignor {self.assignor}"
        for name, count in self.topics.counts.items():
            racks = self.topics.racks.get(name, ())
            yield " ".join([f"topic {name} {count}", *("+".join(sorted(r)) or "-" for r in racks)])
        for m in self.members:
            owned = ",".join(f"{t}:{'+'.join(map(str, ps))}" for t, ps in m.owned.items() if ps) or "-"
            topics = ",".join(sorted(m.topics)) or "-"
            yield f"member {m.member_id} {m.group_instance_id or '-'} {m.generation} {m.rack or '-'} {topics} {owned}"
        yield "end"

    @property
    def is_exact(self) -> bool:
        """Whether the assignor has one right result, partition for partition."""
        return "sticky" not in self.assignor

    def ours(self) -> Assignment:
        return ASSIGNORS[self.assignor].assign(self.topics, [_with_user_data(self.assignor, m) for m in self.members])


@dataclass(slots=True)
class AssignmentComparison:
    """The result of many cases."""

    cases: int = 0
    same: int = 0
    better_balanced: int = 0
    fewer_moves: int = 0
    theirs_invalid: int = 0  # it gives partitions to a member that subscribes to nothing, if that one comes first
    our_ms: float = 0.0
    their_ms: float = 0.0
    failures: list[str] = field(default_factory=list)


def _with_user_data(assignor: str, member: Subscriber) -> Subscriber:
    if assignor != "sticky" or member.generation < 0:
        return member
    return replace(member, user_data=encode_sticky_user_data(member.owned, member.generation))


# -- random groups -----------------------------------------------------------------------------------------------------


def random_case(rng: random.Random, assignor: str) -> AssignmentCase:
    """A group out of the blue, with what its members own taken from an earlier assignment of a group a little other."""
    counts = {f"t{n}": rng.randint(1, 9) for n in range(rng.randint(1, 6))}
    racks: dict[str, list[frozenset[str]]] = {}
    if assignor == "range" and rng.random() < 0.5:
        replicas = rng.randint(1, 3)
        racks = {t: [frozenset(rng.sample(RACKS, replicas)) for _ in range(n)] for t, n in counts.items()}
    topics = AssignableTopics(counts, racks)
    equal = rng.random() < 0.4
    names = sorted(counts)
    members = []
    for n in range(rng.randint(1, 9)):
        subscribed = names if equal else rng.sample(names, rng.randint(0, len(names)))
        instance = f"i{rng.randint(0, 99)}-{n}" if rng.random() < 0.3 else None
        rack = rng.choice(RACKS) if racks and rng.random() < 0.8 else None
        members.append(Subscriber(f"m{n}", frozenset(subscribed), instance, rack=rack))
    case = AssignmentCase(assignor, topics, tuple(members))
    return later(rng, case) if "sticky" in assignor and rng.random() < 0.8 else case


def later(rng: random.Random, case: AssignmentCase) -> AssignmentCase:
    """The group after an assignment and a change: some gone, some new, topics that grew, came or went."""
    assignment = case.ours()
    members = [replace(m, owned=assignment[m.member_id], generation=3) for m in case.members]
    for _ in range(rng.randint(0, 2)):
        if len(members) > 1:
            members.pop(rng.randrange(len(members)))
    everything = frozenset(case.topics.counts)
    members += [Subscriber(f"n{n}", everything) for n in range(rng.randint(0, 2))]
    counts = dict(case.topics.counts)
    if rng.random() < 0.3:
        counts[rng.choice(sorted(counts))] += rng.randint(1, 4)
    return replace(case, topics=AssignableTopics(counts), members=tuple(members))


# -- the judge ---------------------------------------------------------------------------------------------------------


class TooSlow(RuntimeError):
    """The Java class had not answered after JAVA_LIMIT_S."""


class JavaAssignors:
    """Apache Kafka's classes in a JVM; needs a JDK, since it starts a source file."""

    def __init__(self, version: str, program: str) -> None:
        source = Path(__file__).with_name(program)
        command = ["java", "-Xmx3g", "-cp", f"{jars(version)}/*", str(source)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, case: AssignorQuestion) -> tuple[Assignment, float]:
        """Its assignment, and the milliseconds it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        limit = threading.Timer(JAVA_LIMIT_S, self._process.kill)
        limit.start()
        try:
            return self._ask(case, self._process.stdin, self._process.stdout)
        finally:
            limit.cancel()

    def _ask(self, case: AssignorQuestion, stdin: IO[str], stdout: IO[str]) -> tuple[Assignment, float]:
        stdin.write("\n".join(case.lines()) + "\n")
        stdin.flush()
        assignment: Assignment = {}
        took_ms = 0.0
        for line in stdout:
            words = line.split(maxsplit=2)
            if words[0] == "end":
                return assignment, took_ms
            if words[0] == "ms":
                took_ms = float(words[1])
            else:
                owned = assignment.setdefault(words[1], {})
                for item in filter(None, (words[2] if len(words) > 2 else "").strip().split(",")):
                    topic, _, partition = item.rpartition(":")
                    owned.setdefault(topic, []).append(int(partition))
        if self._process.wait() == -signal.SIGKILL:
            raise TooSlow(f"no answer after {JAVA_LIMIT_S:g} s")
        raise RuntimeError("the Java assignors ended without an answer; is a JDK (not only a JRE) on the PATH?")

    def close(self) -> None:
        """Ends the JVM, within 20 s."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(20)


def random_cases(assignor: str, count: int, seed: int) -> Iterator[AssignmentCase]:
    """So many groups for that assignor; a seed repeats them."""
    rng = random.Random(seed)
    return (random_case(rng, assignor) for _ in range(count))


def large_cases() -> Iterator[tuple[str, AssignmentCase]]:
    """A million partitions and ten thousand equal members; a hundred thousand and five thousand that all differ: the first
    assignment, and the one after a member has left."""
    rng = random.Random(1)
    topics = AssignableTopics({f"t{n:03}": 2_000 for n in range(500)})
    equal = [Subscriber(f"m{n:05}", frozenset(topics.counts)) for n in range(10_000)]
    yield from _twice("1,000,000 partitions, 10,000 equal members", topics, equal)
    topics = AssignableTopics({f"t{n:04}": 100 for n in range(1_000)})
    names = list(topics.counts)
    unequal = [Subscriber(f"m{n:05}", frozenset(rng.sample(names, rng.randint(10, 500)))) for n in range(5_000)]
    yield from _twice("100,000 partitions, 5,000 members that differ", topics, unequal)


def _twice(what: str, topics: AssignableTopics, members: list[Subscriber]) -> Iterator[tuple[str, AssignmentCase]]:
    first = AssignmentCase("cooperative-sticky", topics, tuple(members))
    yield f"{what}, first", first
    given = first.ours()
    left = tuple(replace(m, owned=given[m.member_id], generation=1) for m in members[1:])
    yield f"{what}, one has left", AssignmentCase("cooperative-sticky", topics, left)


def compare(
    version: str, cases: Iterable[AssignmentCase], *, settle: bool = True, program: str = "Assign.java"
) -> AssignmentComparison:
    """Asks both about every case, cooperative ones until nothing is held back (``settle``). Raises CannotRun."""
    java, comparison = JavaAssignors(version, program), AssignmentComparison()

    def ask_java(case: AssignmentCase) -> Assignment:
        assignment, took_ms = java.ask(case)
        comparison.their_ms += took_ms
        return assignment

    def ask_us(case: AssignmentCase) -> Assignment:
        started = time.perf_counter()
        assignment = case.ours()
        comparison.our_ms += (time.perf_counter() - started) * 1000
        return assignment

    try:
        for case in cases:
            comparison.cases += 1
            if settle:
                _judge(comparison, case, settled(case, ask_us), settled(case, ask_java))
            else:
                ask_us(case)
                try:
                    ask_java(case)
                except TooSlow:
                    comparison.their_ms = float("inf")
    finally:
        java.close()
    return comparison


def settled(case: AssignmentCase, ask: Callable[[AssignmentCase], Assignment]) -> Assignment:
    """The assignment; of a cooperative one what it comes to once nothing is held back."""
    before: Mapping[str, Owned] = {m.member_id: m.owned for m in case.members}
    for generation in range(4, 9):
        given = ask(case)
        if case.assignor != "cooperative-sticky" or _sorted(given) == _sorted(before):
            return given
        before = given
        members = [replace(m, owned=given.get(m.member_id, {}), generation=generation) for m in case.members]
        case = replace(case, members=tuple(members))
    return given


def _judge(comparison: AssignmentComparison, case: AssignmentCase, ours: Assignment, theirs: Assignment) -> None:
    mine, other = _sorted(ours), _sorted(theirs)
    comparison.same += mine == other
    requested = "; ".join(case.lines())
    if case.is_exact:
        if mine != other:
            comparison.failures.append(f"ours {mine}, theirs {other}: {requested}")
        return
    problem = invalid(case, ours)
    if problem:
        comparison.failures.append(f"{problem}: {requested}")
    if invalid(case, theirs):
        comparison.theirs_invalid += 1
        return
    our_balance, their_balance = balance(ours), balance(theirs)
    our_moves, their_moves = moves(case, ours), moves(case, theirs)
    if our_balance > their_balance:
        comparison.failures.append(f"balance {our_balance}, theirs {their_balance}: {requested}")
    elif our_balance == their_balance and our_moves > their_moves:
        comparison.failures.append(f"{our_moves} moves, theirs {their_moves}: {requested}")
    comparison.better_balanced += our_balance < their_balance
    comparison.fewer_moves += our_balance == their_balance and our_moves < their_moves


def _sorted(assignment: Mapping[str, Owned]) -> dict[str, list[tuple[str, int]]]:
    return {m: sorted((t, p) for t, ps in owned.items() for p in ps) for m, owned in assignment.items()}


def balance(assignment: Assignment) -> int:
    """Lower is better."""
    return sum(sum(map(len, owned.values())) ** 2 for owned in assignment.values())


def moves(case: AssignmentCase, assignment: Assignment) -> int:
    """Partitions that a member had, still may have, and has no more."""
    count = 0
    for member in case.members:
        has = assignment.get(member.member_id, {})
        for topic, partitions in member.owned.items():
            if topic in member.topics and topic in case.topics.counts:
                count += len(set(partitions) - set(has.get(topic, ())))
    return count


def invalid(case: AssignmentCase, assignment: Assignment) -> str:
    """The problem of an assignment by itself; "" without one."""
    given: set[tuple[str, int]] = set()
    for member in case.members:
        if member.member_id not in assignment:
            return f"{member.member_id} has no entry"
        for topic, partitions in assignment[member.member_id].items():
            if topic not in member.topics:
                return f"{member.member_id} has {topic} unasked"
            for partition in partitions:
                if (topic, partition) in given:
                    return f"{topic}-{partition} is given twice"
                given.add((topic, partition))
    return ""
