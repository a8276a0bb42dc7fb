"""Spark's own connector as a client of the part: one session of its Spark, in a process of its own, makes every call."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coterie_conformance.security.clients import JAVA_ERRORS, OLDER_BEARER_HANDLER, Attempt, Settings, java_properties
from coterie_conformance.spark.run import connector_jars, peer_python

END_S = 30.0


@contextmanager
def spark_connector(folder: Path) -> Iterator[Attempt]:
    """It has no transactions. Raises CannotRun."""
    python, jars = peer_python(), connector_jars()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(python), str(Path(__file__).with_name("spark_login.py")), jars]
    with (
        open(folder / "spark.log", "w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        requests, responses = process.stdin, process.stdout

        def attempt(settings: Settings) -> str:
            properties = java_properties({**settings, "bearer.handler": OLDER_BEARER_HANDLER}, folder)
            options = {f"kafka.{name}": value for name, value in properties.items()}
            options["kafka.bootstrap.servers"] = settings["bootstrap.servers"]
            if settings["call"] == "group":
                options["kafka.group.id"] = "denied"
            print(json.dumps({"call": settings["call"], "options": options}), file=requests, flush=True)
            error: str = json.loads(responses.readline() or '"Spark has ended"')
            return next((name for name in JAVA_ERRORS if name in error), error)

        try:
            yield attempt
        finally:
            requests.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
