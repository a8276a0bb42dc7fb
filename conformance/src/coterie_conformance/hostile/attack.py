"""One attack, as the tables of `attacks` and `logins` have it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Attack:
    """``amount`` of something, at that listener; ``small`` of it in the tests. ``run`` may raise `BoundBrokenError`."""

    name: str
    run: Callable[[Address, int, random.Random], str]
    amount: int
    small: int
    on_kafka: bool = True  # whether it makes sense there
    listener: str = "PLAINTEXT"


class BoundBrokenError(RuntimeError):
    """The broker did not hold the bound that an attack is about."""
