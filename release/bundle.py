"""`./run package file|image`: coterie without a Python of the machine's, in one file or in an OCI image, for the processor and
the C library (or a newer one) of the machine that builds it. Both are written below dist/.

PyInstaller collects the program in an environment that has coterie and the extras below, and nothing else of a developer's;
`packing` makes one file of its folder.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

from packing import pack

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "package"
DIST = ROOT / "dist"
# What few need would make the file a third larger for all.
FILE_EXTRAS, IMAGE_EXTRAS = "http,zookeeper", "http,zookeeper,tls,oauth,schemas"
STATIC_PROGRAMS = {"busybox": "busybox-static", "bash-static": "bash-static"}  # to the Debian package of each


def environment(extras: str) -> Path:
    """A virtual environment's folder of programs."""
    folder = BUILD / f"environment-{extras.replace(',', '-')}"
    if not (folder / "bin" / "python").exists():
        _call(sys.executable, "-m", "venv", folder)
    options = ("-q", "--disable-pip-version-check", "-c", ROOT / "constraints.txt")
    pip = (folder / "bin" / "python", "-m", "pip", "install", *options)
    _call(*pip, "-r", HERE / "requirements.txt", f"{ROOT}[{extras}]")
    _call(*pip, "--force-reinstall", "--no-deps", ROOT)  # the version may be that of the last build
    return folder / "bin"


def bundle(programs: Path, kind: str, folder: Path) -> Path:
    """PyInstaller's folder for the file or the image in ``folder``; its path."""
    options = ("--noconfirm", "--log-level", "ERROR", "--distpath", folder, "--workpath", BUILD / f"work-{kind}")
    _call(programs / "pyinstaller", *options, HERE / "coterie.spec", "--", kind)
    return folder / "coterie"


def one_file() -> Path:
    made = bundle(environment(FILE_EXTRAS), "file", BUILD / "file")
    DIST.mkdir(exist_ok=True)
    return pack(made, DIST / f"coterie-{_version(made / 'coterie')}-linux-{platform.machine()}")


def image() -> Path:
    """An archive in OCI's form; `podman load` and `docker load` take it. Needs buildah, busybox-static and bash-static."""
    programs = {name: shutil.which(name) for name in ("buildah", *STATIC_PROGRAMS)}
    missing = [STATIC_PROGRAMS.get(name, name) for name, path in programs.items() if path is None]
    if missing:
        sys.exit(f"./run package image needs {' and '.join(missing)}: apt-get install {' '.join(missing)}")
    context = BUILD / "image"
    shutil.rmtree(context, ignore_errors=True)
    shutil.copytree(HERE / "image", context, symlinks=True)
    root = context / "rootfs"
    program = bundle(environment(IMAGE_EXTRAS), "image", root / "opt")
    for library in _outside_libraries(program):
        target = root / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, target)
    (root / "bin").mkdir()
    shutil.copy2(str(programs["bash-static"]), root / "bin" / "bash")
    shutil.copy2(str(programs["busybox"]), root / "bin" / "busybox")
    applets = subprocess.run([root / "bin" / "busybox", "--list"], capture_output=True, text=True, check=True).stdout
    for applet in set(applets.split()) - {"bash", "busybox"}:
        (root / "bin" / applet).symlink_to("busybox")
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    name = f"localhost/coterie:{_version(program / 'coterie')}"
    target = DIST / f"coterie-{_version(program / 'coterie')}-{platform.machine()}.tar"
    DIST.mkdir(exist_ok=True)
    target.unlink(missing_ok=True)
    # Docker's form of the image keeps the health check, which OCI's has no field for.
    buildah = (str(programs["buildah"]), "--storage-driver", "vfs")
    _call(*buildah, "build", "--quiet", "--format", "docker", "--isolation", "chroot", "--tag", name, context)
    _call(*buildah, "push", "--quiet", name, f"docker-archive:{target}:{name}")
    return target


def _outside_libraries(program: Path) -> set[Path]:
    """The shared libraries, the loader among them, that the bundle takes from the machine: glibc's."""
    libraries = set()
    for binary in [program / "coterie", *program.rglob("*.so*")]:
        printed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
        words = [word for line in printed.splitlines() for word in line.split() if word.startswith("/")]
        libraries |= {Path(word) for word in words if not Path(word).is_relative_to(program)}
    return libraries


def _version(program: Path) -> str:
    printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return printed.split()[2].rstrip(",")


def _call(*command: object) -> None:
    subprocess.run([str(word) for word in command], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run package", description=__doc__)
    parser.add_argument("kind", choices=("file", "image"))
    began_s = time.monotonic()
    made = one_file() if parser.parse_args().kind == "file" else image()
    size_mb = made.stat().st_size / 1e6
    print(f"{made.relative_to(ROOT)}: {size_mb:.1f} MB, made in {time.monotonic() - began_s:.0f} s")


if __name__ == "__main__":
    main()
