"""Builds the compiled edition: modules of the package as extension modules, made by mypyc of the same source.

    python compiled_edition.py FOLDER      builds it in FOLDER/coterie, beside a copy of the source; minutes

`compiled_modules` names the modules, `compiled_text` and `compiled_messages` write what mypyc gets of each.
Needs mypy, setuptools and a C compiler.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import sysconfig
import time
from pathlib import Path

from compiled_modules import ROOT, SOURCE, grouped, is_of_messages, module_files
from compiled_text import bases_of, compares, write_out

STAMP = "edition.sha256"
MYPY_CONFIG = "[mypy]\nmypy_path = {folder}\npython_version = {version}\nignore_missing_imports = True\n"


def digest() -> str:
    """Of all that the compiled modules are made of: every source file (types come from the others too), and these programs."""
    total = hashlib.sha256(sys.version.encode())
    for path in [*sorted(ROOT.glob("compiled_*.py")), *sorted(SOURCE.rglob("*.py"))]:
        total.update(path.read_bytes())
    return total.hexdigest()


def is_fresh(folder: Path) -> bool:
    """Whether FOLDER holds what `build` would make of the source as it is now."""
    stamp = folder / STAMP
    return stamp.is_file() and stamp.read_text() == digest()


def write_sources(folder: Path) -> None:
    """A copy of the packages in ``folder``, with written out methods in the modules that are compiled, and native classes
    in those of messages."""
    sys.path.insert(0, str(SOURCE.parent))  # the declarations are read by running them
    from compiled_messages import native_module

    for package in ("coterie", "pyspark_coterie"):
        shutil.rmtree(folder / package, ignore_errors=True)
        shutil.copytree(SOURCE.parent / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    copies = [folder / "coterie" / file for file in module_files()]
    bases = frozenset().union(*(bases_of(copy.read_text("utf-8")) for copy in copies))
    for file, copy in zip(module_files(), copies, strict=True):
        text = copy.read_text("utf-8")
        written = (
            native_module(file, text) if is_of_messages(file) else write_out(text, bases, comparisons=compares(file))
        )
        copy.write_text(written, "utf-8")


def build(folder: Path) -> None:
    """Makes the extension modules in ``folder``, beside the unchanged source, and a list of them, `modules.txt`. Raises
    ImportError without mypy or setuptools, SystemExit for types that mypyc cannot compile, and setuptools' CompileError."""
    from mypyc.build import mypycify
    from setuptools import Distribution

    folder.mkdir(parents=True, exist_ok=True)
    (folder / STAMP).unlink(missing_ok=True)
    of_source, begun_s = digest(), time.time()  # before minutes in which the source may change
    write_sources(folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        config = Path("mypy.ini")
        config.write_text(MYPY_CONFIG.format(folder=folder, version=f"{sys.version_info[0]}.{sys.version_info[1]}"))
        files = [f"coterie/{file}" for file in module_files()]
        extensions = mypycify(
            ["--config-file", str(config), *files],
            only_compile_paths=files,
            opt_level="1",
            debug_level="0",
            multi_file=True,
            separate=[(files, name) for name, files in grouped().items()],
            target_dir="c",
        )
        for extension in extensions:
            # Each file of a group defines what it uses of other groups; calls within a group need no table.
            extension.extra_compile_args += ["-fcommon", "-fvisibility=hidden"]
        command = Distribution({"name": "coterie", "ext_modules": extensions}).get_command_obj("build_ext")
        command.inplace, command.build_temp = True, "c"
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    for file in files:
        shutil.copyfile(SOURCE.parent / file, folder / file)
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    made = [folder / f"{group}__mypyc{suffix}" for group in grouped()]
    made += [(folder / file[:-3]).with_suffix(suffix) for file in files]
    modules = "".join(f"{path.relative_to(folder)}\n" for path in made)
    (folder / "modules.txt").write_text(modules, "utf-8")
    (folder / STAMP).write_text(of_source, "utf-8")
    os.utime(folder / STAMP, (begun_s, begun_s))  # `./run` compares it with the times of the sources


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve()
    if not is_fresh(target):
        build(target)
