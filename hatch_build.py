"""Builds the compiled parts, `records/_unfold.pyx`, `_rows.pyx` and `_encoding.pyx`, where there is a C compiler (CC and
CFLAGS, else the one that built Python). Without one, or with COTERIE_PURE=1, the package is pure Python and does the same
more slowly."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = tuple(f"src/coterie/records/{name}.pyx" for name in ("_unfold", "_rows", "_encoding"))


class CompiledPart(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("COTERIE_PURE") == "1":
            return
        suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
        built = [Path(source).with_suffix(suffix) for source in SOURCES]
        try:
            for source, extension in zip(SOURCES, built, strict=True):
                compile_extension(Path(self.root) / source, Path(self.root) / extension)
        except (ImportError, OSError, subprocess.CalledProcessError) as error:
            self.app.display_warning(f"without the compiled parts, which could not be built: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"] += [extension.as_posix() for extension in built]


def compile_extension(source: Path, built: Path) -> None:
    """Raises ImportError without Cython, OSError or CalledProcessError without a working compiler. A process that has the
    former extension open keeps it."""
    from Cython.Compiler.Main import CompilationOptions, compile_single

    with tempfile.TemporaryDirectory() as folder:
        c_file = str(Path(folder) / f"{source.stem}.c")
        found = compile_single(str(source), CompilationOptions(output_file=c_file), f"coterie.records.{source.stem}")
        if found.num_errors:
            raise OSError("Cython found errors")
        made = Path(folder) / built.name
        compiler = (os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")).split()
        shared = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
        include = sysconfig.get_path("include")
        flags = os.environ.get("CFLAGS", "").split()
        command = [*compiler, "-O3", "-fPIC", *flags, *shared, "-w", f"-I{include}", c_file, "-o", str(made)]
        subprocess.run(command, check=True, capture_output=True)
        put_in_place(made, built)


def put_in_place(made: Path, built: Path) -> None:
    """By a rename: a process that has the file mapped ends with a segmentation fault where its bytes are overwritten."""
    arriving = built.with_name(f"{built.name}.new")
    shutil.copy(made, arriving)
    arriving.replace(built)
