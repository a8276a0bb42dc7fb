"""PySpark's worker daemon (`spark.python.daemon.module`), without a traceback for each worker whose query was stopped.

A query that ends early closes its workers' sockets; PySpark 4.3 prints a BrokenPipeError of each on the terminal. The worker
ends here as it does there, since it cannot be used again. Spark starts the workers of tasks with this module; the
workers that plan a query run PySpark's own, whatever is set."""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(connection: socket.socket, authenticated: bool) -> int:
    """An exit code: 1 has the daemon end this process."""
    try:
        return int(_worker(connection, authenticated))
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    daemon.worker = worker
    daemon.manager()
