"""Errors that are one sentence for the user: options, brokers, lost or damaged records. Spark reports an exception of a Python
process of its with the whole traceback in front of the sentence; here the process has it leave the traceback out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"  # PySpark reads it when it reports an exception, with which the process ends
# Spark looks sources up with the Python that PYSPARK_PYTHON names, python3 of the PATH by default.
SOURCE_UNKNOWN = (
    "the Python that Spark starts has no coterie: set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to the Python that has it, or "
    "make the session with coterie.pipeline.session.make_session"
)
_KINDS = ("KafkaError: ", "OptionError: ", "DataLossError: ", "NothingToRead: ", "ConfigError: ")


@contextmanager
def alone() -> Iterator[None]:
    """In a Python process of Spark's, a sentence is reported without a traceback, other errors with it. The variable set to an
    empty text keeps all tracebacks."""
    try:
        yield
    except Exception as error:
        if is_in_process_of_spark() and _is_sentence(error):
            os.environ.setdefault(HIDE_TRACEBACK, "1")
        raise


def _is_sentence(error: Exception) -> bool:
    from coterie.client.errors import KafkaError  # not imported where a process only names the schema
    from coterie.pipeline.offsets import DataLossError
    from coterie.pipeline.options.types import OptionError

    return isinstance(error, KafkaError | DataLossError | OptionError)


def sentence_of(error: Exception) -> str | None:
    """The sentence with which a job failed, in this process or deep in Spark; None where the error is none for the user."""
    if _is_sentence(error) or isinstance(error, ValueError):
        return str(error)
    if "[DATA_SOURCE_NOT_FOUND]" in str(error) and "coterie" in str(error):
        return SOURCE_UNKNOWN
    for line in str(error).splitlines():
        for kind in _KINDS:
            if kind in line:
                return line.split(kind, 1)[1]
    return None


def is_in_process_of_spark() -> bool:
    """Whether Spark started this process, to plan or to run a task or a query's reader."""
    name = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", "")
    return name.startswith("pyspark.") or name == "coterie.pipeline.workers.worker_daemon"
