"""The Python of Spark's workers on this machine."""

from __future__ import annotations

import os
import shlex
import stat
import sys
import sysconfig
from pathlib import Path

_SHIM = """\
#!/bin/sh
home={home}
path="${{PYTHONPATH-}}:" before=
while [ "$path" != "$before" ]; do
  before="$path"
  path="${{path#"$home"/python/lib/pyspark.zip:"$home"/python/lib/py4j-*-src.zip:*/jars/spark-core_*.jar:}}"
done
export PYTHONPATH="${{path%:}}"
exec {python} "$@"
"""


def worker_python(scratch: Path) -> str:
    """This Python; behind a shim in ``scratch`` where Spark runs out of the installed package pyspark.

    Spark puts that package's own pyspark.zip before all else on a worker's path. Python keeps no bytecode of modules in a zip:
    each process compiles them anew, for 0.45 s of CPU. The shim takes the zip off the path, and workers import the package. The
    folder of the jar behind it is written as in a URL, where it has a space."""
    import pyspark

    package = Path(pyspark.__file__).resolve().parent
    home = Path(os.environ.get("SPARK_HOME", package)).resolve()
    if home != package or package.parent != Path(sysconfig.get_path("purelib")).resolve():
        return sys.executable
    shim = scratch / "python"
    shim.write_text(_SHIM.format(home=shlex.quote(str(package)), python=shlex.quote(sys.executable)))
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return str(shim) if os.access(shim, os.X_OK) else sys.executable  # not where nothing may be executed
