"""What a test may do to requests at the door of a broker, or of a proxy: a part of `LocalBroker` and `LocalProxy`."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from coterie.testing.argument_checks import checked_arguments, error_code
from coterie.testing.faults import API_KEYS, FAILABLE, FaultRule, Faults
from coterie.testing.loop_thread import WAIT_S
from coterie.text.quantity import quantity
from coterie.wire.errors import ErrorCode

__tracebackhide__ = True  # for pytest: a failure is shown where the test called

T = TypeVar("T")


@checked_arguments
class FaultControls(ABC):
    """Each method raises ValueError for an API that it does not know."""

    faults: Faults

    @abstractmethod
    def _call(self, what: Callable[[], T]) -> T:
        """Carries it out on the loop of the broker, or the proxy."""

    @abstractmethod
    def _until(self, done: Callable[[], T], wanted: str, why: Callable[[], str], timeout_s: float) -> T:
        """The first true result. Raises TimeoutError."""

    def hold(
        self, api: str, *, group: str | None = None, client_id: str | None = None, times: int = 1
    ) -> contextlib.AbstractContextManager[FaultRule]:
        """The next so many requests of that API wait at the door until the with-block ends; the rule's ``held`` has
        the requests so far."""
        return self._holding(FaultRule(_known(api, API_KEYS), group, client_id, times))

    @contextlib.contextmanager
    def _holding(self, rule: FaultRule) -> Iterator[FaultRule]:
        self._add(rule)
        try:
            yield rule
        finally:
            self.release(rule)

    def hold_until_release(
        self, api: str, *, group: str | None = None, client_id: str | None = None, times: int = 1
    ) -> FaultRule:
        """As `hold`, where no with-block fits: `release` ends it."""
        return self._add(FaultRule(_known(api, API_KEYS), group, client_id, times))

    def release(self, rule: FaultRule) -> None:
        """Ends a rule of any kind, also one that has ended; the requests that it holds go on."""
        self._call(lambda: self._release(rule))

    def _release(self, rule: FaultRule) -> None:
        if rule in self.faults.rules:
            self.faults.rules.remove(rule)
        while rule.held:
            rule.held.pop(0)()

    def fail(
        self, api: str, code: ErrorCode | str, *, times: int = 1, group: str | None = None, client_id: str | None = None
    ) -> FaultRule:
        """The next so many requests of that API receive that code, such as ErrorCode.NOT_COORDINATOR or its name,
        and not carried out."""
        return self._add(FaultRule(_known(api, FAILABLE), group, client_id, times, error_code(code)))

    def lose_response(
        self, api: str, *, times: int = 1, group: str | None = None, client_id: str | None = None
    ) -> FaultRule:
        """The next so many requests of that API are carried out, and their responses never sent."""
        return self._add(FaultRule(_known(api, API_KEYS), group, client_id, times, lost=True))

    def delay(
        self, api: str, ms: int, *, times: int = 1, group: str | None = None, client_id: str | None = None
    ) -> FaultRule:
        """The next so many requests of that API are carried out so many milliseconds later."""
        return self._add(FaultRule(_known(api, API_KEYS), group, client_id, times, delay_s=ms / 1000))

    def cut(self, api: str, *, times: int = 1, group: str | None = None, client_id: str | None = None) -> FaultRule:
        """The next so many requests of that API are not carried out, and their connections are closed."""
        return self._add(FaultRule(_known(api, API_KEYS), group, client_id, times, is_cut=True))

    def _add(self, rule: FaultRule) -> FaultRule:
        self._call(lambda: self.faults.rules.append(rule))
        return rule

    def requested(self, api: str) -> int:
        """How many requests of that API came so far."""
        return self.faults.requested[_known(api, API_KEYS)]

    def until_held(self, rule: FaultRule, count: int = 1, timeout_s: float = WAIT_S) -> None:
        """Waits until so many requests wait at the door."""
        self._until(lambda: len(rule.held) >= count, f"no {rule.api} came", lambda: "", timeout_s)

    def until_requested(self, api: str, count: int, timeout_s: float = WAIT_S) -> None:
        """Waits until so many requests of that API have come in all."""
        self._until(
            lambda: self.requested(api) >= count,
            f"{api} came fewer than {quantity(count, 'time')}",
            lambda: "",
            timeout_s,
        )


def _known(api: str, names: Iterable[str]) -> str:
    if api not in names:
        raise ValueError(f"there is no {api} here; there are {', '.join(sorted(names))}")
    return api
