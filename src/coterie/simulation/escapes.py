"""The clock and the randomness of the standard library while a simulation runs, and what it refuses.

Programs call `time`, `random`, `secrets` and `uuid`; while the world runs, in its thread alone, these give the world's time
and numbers of its seed. A module that imported one of the functions by name gets it too. `datetime.now` is C code that reads
the real clock, and cannot be replaced: two runs of a seed whose traces differ show it.
"""

from __future__ import annotations

import os
import random
import socket
import ssl
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coterie.simulation.process import CURRENT, Escaped
from coterie.simulation.tls import do_handshake, wrap_bio

if TYPE_CHECKING:
    from coterie.simulation.loop import SimulationLoop

EPOCH_S = 1_700_000_000  # the wall clock at the world's beginning: 2023-11-14 22:13:20 UTC
_Function = Callable[..., Any]
_running: dict[int, tuple[SimulationLoop, random.Random]] = {}  # by thread: the world that runs in it


def _virtual(real: _Function, virtual: Callable[..., Any]) -> _Function:
    """``virtual(loop, rng, *arguments)`` in the thread of a running world, else the real function."""

    def replaced(*arguments: Any, **options: Any) -> Any:
        world = _running.get(_thread_id())
        return real(*arguments, **options) if world is None else virtual(*world, *arguments, **options)

    replaced.__name__ = getattr(real, "__name__", "replaced")
    replaced.__wrapped__ = real  # type: ignore[attr-defined]
    return replaced


_thread_id = threading.get_ident


def _wall_s(loop: SimulationLoop) -> float:
    process = CURRENT.get()
    return EPOCH_S + loop.time() + (0.0 if process is None else process.clock_offset_s)


def _refused(what: str) -> Callable[..., Any]:
    def refuse(loop: SimulationLoop, rng: random.Random, *arguments: Any, **options: Any) -> Any:
        raise Escaped(f"{what} within a simulation, where all runs in one event loop of virtual time")

    return refuse


def _seed(loop: SimulationLoop, rng: random.Random, of: random.Random, a: Any = None, version: int = 2) -> None:
    """A generator without a seed has one of the world's."""
    _REAL_SEED(of, rng.getrandbits(64) if a is None else a, version)


_REAL_SEED = random.Random.seed
# (module or class, name, what it does in a simulation)
_REPLACED: list[tuple[Any, str, Callable[..., Any]]] = [
    (time, "time", lambda loop, rng: _wall_s(loop)),
    (time, "time_ns", lambda loop, rng: round(_wall_s(loop) * 1e9)),
    (time, "monotonic", lambda loop, rng: loop.time()),
    (time, "monotonic_ns", lambda loop, rng: round(loop.time() * 1e9)),
    (time, "perf_counter", lambda loop, rng: loop.time()),
    (time, "perf_counter_ns", lambda loop, rng: round(loop.time() * 1e9)),
    (time, "sleep", _refused("time.sleep was called")),
    (os, "urandom", lambda loop, rng, size: rng.randbytes(size)),
    (random, "_urandom", lambda loop, rng, size: rng.randbytes(size)),
    (random.Random, "seed", _seed),
    (threading.Thread, "start", _refused("a thread was started")),
    (socket.socket, "__init__", _refused("a real socket was opened")),
    (ssl.SSLContext, "wrap_bio", lambda loop, rng, *arguments, **options: wrap_bio(*arguments, **options)),
    (ssl.SSLObject, "do_handshake", lambda loop, rng, tls: do_handshake(tls, lambda: _wall_s(loop))),
]
_BY_NAME = ("time", "os", "random")  # modules whose functions others may have imported by name


# Module -> its object, its number of names, and the names that were a function of `_REPLACED`, all at the last look: a look at
# each name of all modules of a test suite took 20 ms at the start of each world.
_looked_at: dict[str, tuple[Any, int, set[str]]] = {}


def _importers() -> list[tuple[Any, str, _Function]]:
    """(module, name, function) where a function of `_REPLACED` was imported by name. Of a module with as many names as at the
    last look, the names of such functions then are looked at again, and the functions' own names."""
    originals = {id(getattr(of, name)): name for of, name, _ in _REPLACED if getattr(of, "__name__", "") in _BY_NAME}
    own = {name for _, name, _ in _REPLACED}
    importers = []
    for key, module in list(sys.modules.items()):
        if module is None or key in _BY_NAME or key == __name__:
            continue
        names = vars(module)
        looked_at, count, known = _looked_at.get(key, (None, 0, own))
        if looked_at is not module or count != len(names):
            known = known.union(name for name, value in list(names.items()) if id(value) in originals)
            _looked_at[key] = module, len(names), known
        if not known.isdisjoint(names):
            importers += [(module, name, names[name]) for name in known & names.keys() if id(names[name]) in originals]
    return importers


class Escapes:
    """What `Simulation` puts in place of the standard library's functions, from `install` to `remove`."""

    def __init__(self, loop: SimulationLoop, rng: random.Random) -> None:
        self._loop, self._rng = loop, rng
        self._random_state: object = None
        self._replaced: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        """Once for a world."""
        by_name = _importers()
        made = {}
        for of, name, virtual in _REPLACED:
            real = getattr(of, name)
            made[id(real)] = _virtual(real, virtual)
            self._replace(of, name, made[id(real)])
        for module, name, real in by_name:
            self._replace(module, name, made[id(real)])
        self._replace(uuid, "_generate_time_safe", None)  # uuid1: by the clock above
        self._replace(uuid, "_last_timestamp", None)
        state, seed = random.getstate(), self._rng.getrandbits(64)
        random.seed(seed)
        self._random_state, self._outside = random.getstate(), state
        random.setstate(state)

    def _replace(self, of: Any, name: str, value: Any) -> None:
        self._replaced.append((of, name, getattr(of, name)))
        setattr(of, name, value)

    def remove(self) -> None:
        """The real functions again."""
        while self._replaced:
            setattr(*self._replaced.pop())

    @contextmanager
    def running(self) -> Iterator[None]:
        """While the world's loop runs in this thread. The functions of `random` go on from where the world's last run ended."""
        thread = _thread_id()
        if thread in _running:
            raise Escaped("a world runs in this thread already; one simulation cannot run another")
        outside = random.getstate()
        random.setstate(self._random_state)  # type: ignore[arg-type]
        _running[thread] = self._loop, self._rng
        try:
            yield
        finally:
            del _running[thread]
            self._random_state = random.getstate()
            random.setstate(outside)
