"""How the work of connections is shared out between those who have logged in and the many who have not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from coterie.broker.process.scheduling import Timer
from coterie.broker.requests.turns import MAX_TURN_S, Turns

STEP_S = 0.001  # of a handshake


class Iterations:
    """A loop whose time is what its work takes. ``order``: whose work was done."""

    def __init__(self) -> None:
        self._now_s, self._soon = 0.0, list[Callable[[], object]]()
        self.order: list[str] = []

    def time(self) -> float:
        return self._now_s

    def call_soon(self, callback: Callable[[], object]) -> None:
        self._soon.append(callback)

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        raise NotImplementedError

    def iterate(self) -> None:
        callbacks, self._soon = self._soon, []
        for callback in callbacks:
            callback()

    def work(self, who: str, took_s: float = STEP_S) -> None:
        self._now_s += took_s
        self.order.append(who)


def test_a_client_does_not_wait_for_thousands_of_handshakes() -> None:
    loop = Iterations()
    turns = Turns(loop)
    for _ in range(3_000):
        turns.add(partial(loop.work, "stranger"), of_stranger=True)
    loop.iterate()
    turns.add(partial(loop.work, "client"))
    handled = len(loop.order)
    loop.iterate()
    assert loop.order[handled] == "client"
    assert len(loop.order) < 3 * MAX_TURN_S / STEP_S


def test_strangers_go_on_beside_clients_who_fill_each_turn() -> None:
    loop = Iterations()
    turns = Turns(loop)

    def fill() -> None:
        loop.work("client", 2 * MAX_TURN_S)
        turns.add(fill)

    fill()
    for _ in range(5):
        turns.add(partial(loop.work, "stranger"), of_stranger=True)
    for _ in range(5):
        loop.iterate()
    assert loop.order.count("stranger") == 5
