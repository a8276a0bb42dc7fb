"""A request's answer that may come later: what a handler returns when it has to wait."""

from __future__ import annotations

from collections.abc import Callable

from coterie.wire.declaration import Message


class Pending:
    """Answered exactly once. Compared by identity, so it serves as the core's token. ``cancel`` ends the work for an answer
    that nobody waits for any more, where there is such work."""

    __slots__ = ("cancel", "failed", "notify", "response")

    def __init__(self) -> None:
        self.response: Message | None = None
        self.notify: Callable[[], None] | None = None
        self.cancel: Callable[[], None] | None = None
        self.failed = False

    def answer(self, response: Message) -> None:
        assert self.response is None, "a request was answered twice"
        self.response = response
        if self.notify is not None:
            self.notify()

    def fail(self) -> None:
        """There will be no answer: the connection ends."""
        self.failed = True
        if self.notify is not None:
            self.notify()

    def abandon(self) -> None:
        """The client is gone."""
        self.notify = None
        if self.cancel is not None and self.response is None:
            self.cancel()

    def then(self, change: Callable[[Message], Message]) -> Pending:
        """Another that is answered when this one is, with what ``change`` makes of the answer."""
        outer = Pending()

        def answered() -> None:
            assert self.response is not None
            outer.answer(change(self.response))

        if self.response is not None:
            answered()
        else:
            self.notify = answered
        return outer
