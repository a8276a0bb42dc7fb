"""Through every state, breadth first, and from each of them to rest."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from coterie_conformance.interleavings.machinery import Machinery
from coterie_conformance.interleavings.state import SmallGroup, State, Transition, TransitionKind, key_of

PROGRESS_EVERY = 10_000
UNKNOWN, ON_THE_PATH = -1, -2


@dataclass(slots=True)
class Search:
    """The result: how much there was, and, of a rule that was broken, the events that lead there."""

    states: int = 0
    events: int = 0
    at_rest: int = 0
    longest_to_rest: int = 0
    failure: str = ""
    course: list[Transition] = field(default_factory=list)


class _Reached:
    """The states by their numbers, in the order in which they were reached: the state before and the event that led here,
    whether the group is at rest, and the next state where nothing goes wrong (-1: not known yet)."""

    def __init__(self, first: State) -> None:
        self.numbers = {key_of(first): 0}
        self.before, self.fair = array("q", [-1]), array("q", [-1])
        self.events: list[Transition] = [Transition(TransitionKind.TIME_PASSES)]  # of the first state: none
        self.resting = bytearray(1)
        self._same: dict[Transition, Transition] = {}

    def number_of(self, state: State, before: int, event: Transition) -> tuple[int, bool]:
        """Its number, and whether it is new."""
        key = key_of(state)
        known = self.numbers.get(key)
        if known is not None:
            return known, False
        number = self.numbers[key] = len(self.numbers)
        self.before.append(before)
        self.fair.append(-1)
        self.events.append(self._same.setdefault(event, event))
        self.resting.append(0)
        return number, True

    def course(self, number: int) -> list[Transition]:
        """A shortest one from the first state."""
        events: list[Transition] = []
        while number > 0:
            events.append(self.events[number])
            number = self.before[number]
        return events[::-1]


def search(
    small: SmallGroup, most_states: int = 10_000_000, progress: Callable[[int, int], None] | None = None
) -> Search:
    """Goes through every state that can be reached, breadth first, so that a broken rule is shown by a shortest course.
    ``progress`` is called now and then with the states gone through and how many wait. Raises ValueError where there are more
    than ``most_states``."""
    machinery, result = Machinery(small), Search()
    first = machinery.first()
    reached, queue = _Reached(first), deque([first])
    for number in count():
        if not queue:
            break
        state = queue.popleft()
        reached.resting[number] = machinery.is_at_rest(state)
        for index, event in enumerate(machinery.events(state)):
            try:
                after = machinery.after(state, event)
            except AssertionError as error:
                result.failure, result.course = str(error), [*reached.course(number), event]
                return result
            result.events += 1
            following, is_new = reached.number_of(after, number, event)
            if is_new:
                queue.append(after)
            if index == 0:
                reached.fair[number] = following
        result.states = len(reached.numbers)
        if progress is not None and number % PROGRESS_EVERY == 0:
            progress(number, len(queue))
        if result.states > most_states:
            raise ValueError(f"more than {most_states} states: search a smaller group, or allow fewer faults")
    result.at_rest = sum(reached.resting)
    _check_rest(result, reached)
    return result


def _check_rest(result: Search, reached: _Reached) -> None:
    """From every state, the course on which nothing more goes wrong comes to rest."""
    steps = array("q", [0 if rests else UNKNOWN for rests in reached.resting])
    for number in range(len(steps)):
        path, at = [], number
        while steps[at] == UNKNOWN:
            steps[at] = ON_THE_PATH
            path.append(at)
            at = reached.fair[at]
        if steps[at] == ON_THE_PATH:
            result.failure, result.course = "the group never comes to rest from here", reached.course(number)
            return
        for distance, passed in enumerate(reversed(path), steps[at] + 1):
            steps[passed] = distance
    result.longest_to_rest = max(steps)
