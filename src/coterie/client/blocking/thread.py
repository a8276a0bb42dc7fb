"""The thread of a blocking client: an event loop on which the asyncio client lives, and calls into it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, ParamSpec, Self, TypeVar

END_S = 5.0  # in which tasks and thread must end
C = TypeVar("C")
K = TypeVar("K")
P = ParamSpec("P")
R = TypeVar("R")


class BlockingClient(Generic[C]):
    """Runs the methods of an asyncio client on the loop's thread. After `close` every method raises RuntimeError, and so does
    one that is called on that thread, for instance by a rebalance listener."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="coterie", daemon=True)
        self._thread.start()
        try:
            self._client = self._call(make)
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the client, and ends the thread."""
        raise NotImplementedError

    def _call(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of a plain function that is run on the loop's thread."""

        async def call() -> R:
            return work(*args, **kwargs)

        return self._result(call())

    def _await(self, work: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """The awaited result of a function."""

        async def call() -> R:
            return await work(*args, **kwargs)

        return self._result(call())

    def _future(self, work: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """As `_await`, without waiting."""

        async def call() -> R:
            return await work(*args, **kwargs)

        return self._submit(call())

    def _futures(
        self, work: Callable[P, dict[K, asyncio.Future[R]]], *args: P.args, **kwargs: P.kwargs
    ) -> dict[K, Future[R]]:
        """A future of this thread for each that a plain function returns."""

        async def call() -> dict[K, Future[R]]:
            return {key: self._followed(future) for key, future in work(*args, **kwargs).items()}

        return self._result(call())

    def _followed(self, future: asyncio.Future[R]) -> Future[R]:
        """A future with the same end; RuntimeError where that one is cancelled, as by `close`."""
        following: Future[R] = Future()
        following.set_running_or_notify_cancel()  # a request that is under way cannot be taken back

        def settle(done: asyncio.Future[R]) -> None:
            if done.cancelled():
                following.set_exception(RuntimeError(f"this {type(self).__name__} is closed; make a new one"))
            elif (error := done.exception()) is not None:
                following.set_exception(error)
            else:
                following.set_result(done.result())

        future.add_done_callback(settle)
        return following

    def _result(self, call: Coroutine[Any, Any, R]) -> R:
        future = self._submit(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C ends the call; one that has ended is not concerned
            raise

    def _submit(self, call: Coroutine[Any, Any, R]) -> Future[R]:
        name = type(self).__name__
        problem = ""
        if self._closed:
            problem = f"this {name} is closed; make a new one"
        elif threading.current_thread() is self._thread:
            problem = f"a {name} cannot be called from its own thread, where listeners and callbacks run"
            problem += ": it would wait for itself"
        if problem:
            call.close()
            raise RuntimeError(problem)
        return asyncio.run_coroutine_threadsafe(call, self._loop)

    def _close(self, work: Callable[P, Awaitable[None] | None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Closes the client with ``work``, whatever that raises, and ends the thread."""
        if self._closed:
            return

        async def call() -> None:
            result = work(*args, **kwargs)
            if inspect.isawaitable(result):
                await result

        try:
            self._result(call())
        finally:
            self._end()

    def _end(self) -> None:
        self._closed = True

        async def end_tasks() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=END_S)

        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(end_tasks(), self._loop).result(2 * END_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(END_S)
        if not self._thread.is_alive():
            self._loop.close()
