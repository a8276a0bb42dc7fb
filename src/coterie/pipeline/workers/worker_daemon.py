"""PySpark's worker daemon (`spark.python.daemon.module`), without a traceback for each worker whose query was stopped, and with
cheaper collections of garbage.

A query that ends early closes its workers' sockets; PySpark 4.3 prints a BrokenPipeError of each on the terminal. The worker
ends here as it does there, since it cannot be used again. Spark starts the workers of tasks with this module. The workers
that plan a query run PySpark's own daemon, whatever is set; Spark closes their sockets once it has the plan, at times before
the worker's last word. They import the source, which calls `adapt_planner`."""

from __future__ import annotations

import gc
import socket
import sys
import traceback
from types import SimpleNamespace

from pyspark import daemon

_worker = daemon.worker


_frozen_modules = 0


def worker(sock: socket.socket, authenticated: bool) -> int:
    """An exit code: 1 has the daemon end this process."""
    try:
        code = int(_worker(sock, authenticated))
    except BrokenPipeError:
        return 1
    freeze_imported()
    return code


def freeze_imported() -> None:
    """After each task the daemon collects a worker's garbage, over all that it ever imported (pandas alone: 10 ms). This keeps
    what there is out of that, and again once more modules are imported."""
    global _frozen_modules
    if len(sys.modules) > _frozen_modules:
        gc.collect()
        gc.freeze()
        _frozen_modules = len(sys.modules)


def adapt_planner() -> None:
    """In a worker of PySpark's own daemon: no traceback of a BrokenPipeError that ends it, and cheap collections of garbage, of
    which a sink's micro-batch has two. Elsewhere nothing."""
    running = sys.modules["__main__"]
    if getattr(running.__spec__, "name", "") == daemon.__name__:
        quiet = SimpleNamespace(print_exc=_print_exception, format_exc=traceback.format_exc)
        vars(running)["traceback"] = quiet
        vars(running)["gc"] = SimpleNamespace(collect=_collect)


def _collect() -> int:
    """The number of unreachable objects, as gc.collect."""
    freeze_imported()
    return gc.collect()


def _print_exception() -> None:
    if not isinstance(sys.exception(), BrokenPipeError):
        traceback.print_exc()


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
