"""A response that may come later: a handler returns it where the request has to wait."""

from __future__ import annotations

from collections.abc import Callable

from coterie.broker.requests.calls import CannotRespond
from coterie.coordinator.streams.tasks import ConfiguredInternalTopic
from coterie.wire.declaration import Message


class _NoResponse(Message):
    def __init__(self) -> None: ...


NO_RESPONSE = _NoResponse()  # a request is done, and its client expects no response


MayDescribe = Callable[[str], bool]  # whether the client may describe a topic
CheckAppend = Callable[[], None]  # raises Refusal where the log may not take the request's records any more


class Pending:
    """Answered exactly once. Compared by identity, so it serves as the core's token. ``cancel`` ends the work for a
    response after its client has disconnected. Once it is over it refers to neither: what they belong to refers to it, and a
    cycle keeps the records of a request until Python looks for cycles."""

    # One is made for each request: defaults of the class cost half of what an __init__ does.
    response: Message | None = None
    notify: Callable[[], None] | None = None
    cancel: Callable[[], None] | None = None
    failure: Exception | None = None  # there will be no response
    may_describe: MayDescribe | None = None  # of a subscription by a regular expression, with an authorizer
    internal_topics: tuple[ConfiguredInternalTopic, ...] = ()  # of a streams group, to create before the response
    check_append: CheckAppend | None = None  # of offsets of a transaction
    in_turns = False  # the request is carried out in turns, and none of its connection's before it is done

    def respond(self, response: Message) -> None:
        """To be called once; calls ``notify``."""
        assert self.response is None, "a request had two responses"
        self.response = response
        if self.cancel is not None:
            self.cancel = None
        if self.notify is not None:
            notify, self.notify = self.notify, None
            notify()

    def fail(self, error: Exception) -> None:
        """There will be no response: the connection is closed, with a line about the error."""
        self.failure = error
        notify, self.notify, self.cancel = self.notify, None, None
        if notify is not None:
            notify()

    def ended(self) -> Message | None:
        """The response; None where the connection is to be closed. Raises the error of a request that a bug has ended."""
        if self.failure is not None and not isinstance(self.failure, CannotRespond):
            raise self.failure
        return self.response

    def abandon(self) -> None:
        """The client has disconnected."""
        cancel, self.notify, self.cancel = self.cancel, None, None
        if cancel is not None:
            cancel()

    def respond_with(self, result: Message | Pending | None) -> None:
        """Responds with what a handler returned, now or once that has its response; None closes the connection."""
        if result is None:
            self.fail(CannotRespond(""))
        elif not isinstance(result, Pending):
            self.respond(result)
        elif result.response is not None:
            self.respond(result.response)
        else:
            self.in_turns, self.cancel = result.in_turns, result.abandon
            result.notify = lambda: self._end_as(result)

    def _end_as(self, inner: Pending) -> None:
        if inner.failure is not None:
            self.fail(inner.failure)
        elif inner.response is not None:
            self.respond(inner.response)

    def then(self, change: Callable[[Message], Message]) -> Pending:
        """A pending response that gets ``change(response)`` when this one gets its response."""
        outer = Pending()
        outer.in_turns = self.in_turns

        def responded() -> None:
            if self.failure is not None:
                outer.fail(self.failure)
            elif self.response is not None:
                outer.respond(change(self.response))

        if self.response is not None:
            responded()
        else:
            self.notify = responded
        return outer
