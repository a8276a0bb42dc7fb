"""The Python of Spark's workers on this machine."""

from __future__ import annotations

import os
import shlex
import stat
import sys
import sysconfig
import zlib
from importlib.util import cache_from_source
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
    """This Python; behind a shim where Spark runs out of the installed package pyspark.

    Spark puts that package's own pyspark.zip before all else on a worker's path. Python keeps no bytecode of modules in a zip:
    each process compiles them again, for 0.45 s of CPU. The shim takes the zip off the path; workers import the package. The
    folder of the jar behind it is written as in a URL, where it has a space. The shim lies beside this module's bytecode, since
    a query may start workers after ``scratch`` was removed; in ``scratch`` where nothing can be written there."""
    import pyspark

    package = Path(pyspark.__file__).resolve().parent
    home = Path(os.environ.get("SPARK_HOME", package)).resolve()
    if home != package or package.parent != Path(sysconfig.get_path("purelib")).resolve():
        return sys.executable
    text = _SHIM.format(home=shlex.quote(str(package)), python=shlex.quote(sys.executable))
    for folder in (bytecode_folder(), scratch):
        shim = folder / f"worker-python-{zlib.crc32(text.encode()):08x}"
        if _is_written(shim, text):
            return str(shim)
    return sys.executable  # where nothing may be executed


def bytecode_folder() -> Path:
    """Python's own, of this package; it may not exist."""
    return Path(cache_from_source(__file__)).parent


def _is_written(shim: Path, text: str) -> bool:
    """Whether it is there and may be executed."""
    try:
        if not shim.exists() or shim.read_text() != text:
            shim.parent.mkdir(parents=True, exist_ok=True)
            arriving = shim.with_name(f"{shim.name}.{os.getpid()}")  # other sessions may begin now
            arriving.write_text(text)
            arriving.chmod(arriving.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
            arriving.replace(shim)
    except OSError:
        return False
    return os.access(shim, os.X_OK)
