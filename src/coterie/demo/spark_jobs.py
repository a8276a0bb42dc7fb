"""The demo's Spark application, a process of its own: a streaming job until SIGTERM, then the history of the groups in the same
session, whose JVM and Python workers run already. After each job, a line of JSON on stdout."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from coterie.pipeline.history.job import Sources, run_history
from coterie.pipeline.jobs import JOBS, Control, JobSource
from coterie.pipeline.sentences import sentence_of
from coterie.pipeline.session import JavaMissing, make_session


def run_jobs(address: str, topic: str, job: str, out: Path, master: str) -> None:
    """Writes OUT/tables/table and OUT/history. Raises JavaMissing, and what either job failed of."""
    spark = make_session(master, "coterie-demo", short=True)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    control = Control(lambda: bool(signals), lambda line: print(line, file=sys.stderr, flush=True), follow=True)
    rows = JOBS[job](spark, JobSource(address, topic, "delays"), out / "tables", control)
    signal.signal(signal.SIGTERM, _end)
    _report(rows=rows)
    _report(history=run_history(spark, Sources({"bootstrap.servers": address}), out / "history"))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the demo ends what still runs
    spark.stop()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _report(**result: object) -> None:
    print(json.dumps(result), flush=True)


def main() -> None:
    """Exits with 1 where a job fails, whose reason is the last line on stderr."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("job", choices=sorted(JOBS))
    parser.add_argument("out", type=Path)
    parser.add_argument("--master", required=True)
    args = parser.parse_args()
    try:
        run_jobs(args.address, args.topic, args.job, args.out, args.master)
    except JavaMissing as error:
        sys.exit(str(error))
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        sys.exit(sentence)


if __name__ == "__main__":
    main()
