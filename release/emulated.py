"""`./run package arm64`: the wheel and the one file for arm64, made on x86-64.

Other wheels for arm64 come from the package index, coterie's compiled parts from a cross compiler, Python and the shared
libraries from Debian's arm64 packages; PyInstaller itself runs under QEMU, in that Debian's files. Takes root, for chroot and
binfmt_misc.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bundle import BUILD, DIST, FILE_EXTRAS, HERE, ROOT
from packing import pack

FOLDER = BUILD / "arm64"
DEBIAN = FOLDER / "debian"
SITE = DEBIAN / "opt" / "site"
COMPILER = "aarch64-linux-gnu-gcc"
PROGRAMS = {
    "debootstrap": "debootstrap",
    "qemu-aarch64-static": "qemu-user-static",
    COMPILER: "gcc-aarch64-linux-gnu",
}
SUITE, PACKAGES = "bookworm", "python3,libpython3.11,binutils,ca-certificates"
PYTHON = "3.11"
PLATFORMS = ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64")
BINFMT = Path("/proc/sys/fs/binfmt_misc")
# ELF, 64 bits, little-endian, an executable or a shared object of AArch64.
_MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
_MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


def debian() -> None:
    """Unpacks the packages, without running any of their scripts."""
    if (DEBIAN / "usr" / "bin" / "python3").exists():
        return
    shutil.rmtree(DEBIAN, ignore_errors=True)
    _call("debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", f"--include={PACKAGES}", SUITE, DEBIAN)
    for package in sorted((DEBIAN / "var" / "cache" / "apt" / "archives").glob("*.deb")):
        _call("dpkg-deb", "-x", package, DEBIAN)


def site() -> None:
    """coterie, what it depends on, and PyInstaller, for that Python."""
    shutil.rmtree(SITE, ignore_errors=True)
    pip = (sys.executable, "-m", "pip")
    quiet = ("-q", "--disable-pip-version-check")
    _call(*pip, "wheel", *quiet, "--no-deps", "-w", FOLDER / "wheel", ROOT, env={"COTERIE_PURE": "1"})
    (wheel,) = (FOLDER / "wheel").glob("coterie-*.whl")
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    options = (*platforms, "--python-version", PYTHON, "--only-binary=:all:", "-c", ROOT / "constraints.txt")
    requirements = ("-r", HERE / "requirements.txt", f"{wheel}[{FILE_EXTRAS}]")
    _call(*pip, "install", *quiet, "--target", SITE, *options, *requirements)
    builder = FOLDER / "builder"
    _call(sys.executable, "-m", "venv", builder)
    _call(builder / "bin" / "pip", "install", *quiet, "-c", ROOT / "constraints.txt", "cython", "hatchling", "wheel")
    for source in sorted((ROOT / "src" / "coterie" / "records").glob("*.pyx")):
        built = SITE / "coterie" / "records" / f"{source.stem}.cpython-311-aarch64-linux-gnu.so"
        compiled = f"compile_extension(Path({str(source)!r}), Path({str(built)!r}))"
        program = f"from pathlib import Path; from hatch_build import compile_extension; {compiled}"
        _call(builder / "bin" / "python", "-c", program, env={"CC": COMPILER, "PYTHONPATH": str(ROOT)})
    _pack(wheel, builder / "bin" / "python")


def _pack(wheel: Path, python: Path) -> None:
    """coterie's own wheel with the compiled parts, into dist/."""
    unpacked = FOLDER / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    _call(python, "-m", "wheel", "unpack", wheel, "-d", unpacked)
    (folder,) = unpacked.iterdir()
    for library in (SITE / "coterie" / "records").glob("*.so"):
        shutil.copy2(library, folder / "coterie" / "records")
    (description,) = folder.glob("*.dist-info/WHEEL")
    text = description.read_text().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    description.write_text(text.replace("py3-none-any", "cp311-cp311-linux_aarch64"))
    _call(python, "-m", "wheel", "pack", folder, "-d", DIST)


def register() -> None:
    """Programs of arm64 run by QEMU, until the machine starts again."""
    if not (BINFMT / "register").exists():
        _call("mount", "-t", "binfmt_misc", "none", BINFMT)
    if not (BINFMT / "qemu-aarch64").exists():
        # F: the interpreter is opened now, so that a chroot has it.
        (BINFMT / "register").write_text(f":qemu-aarch64:M::{_MAGIC}:{_MASK}:{shutil.which('qemu-aarch64-static')}:F")


def emulated(*command: object) -> None:
    """In the arm64 Debian, with /proc and /dev of the machine, in mounts of its own."""
    mounts = f"mount --rbind /proc {DEBIAN}/proc && mount --rbind /dev {DEBIAN}/dev"
    environment = ("env", "-i", "HOME=/root", "PATH=/usr/bin:/bin", "PYTHONPATH=/opt/site", "LANG=C.UTF-8")
    words = " ".join(str(word) for word in (*environment, *command))
    _call("unshare", "--mount", "sh", "-c", f"{mounts} && chroot {DEBIAN} {words}")


def main() -> None:
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        sys.exit(f"./run package arm64 takes root, and {' and '.join(missing or PROGRAMS.values())} of Debian")
    began_s = time.monotonic()
    for folder in (FOLDER, DIST):
        folder.mkdir(parents=True, exist_ok=True)
    for step in (debian, site, register):
        step()
        print(f"{step.__name__}: {time.monotonic() - began_s:.0f} s", flush=True)
    shutil.copytree(HERE, DEBIAN / "opt" / "release", dirs_exist_ok=True)
    options = ("--noconfirm", "--log-level", "WARN", "--distpath", "/opt/dist", "--workpath", "/opt/work")
    emulated("python3", "-m", "PyInstaller", *options, "/opt/release/coterie.spec", "--", "file")
    version = next((FOLDER / "wheel").glob("coterie-*.whl")).name.split("-")[1]
    target = DIST / f"coterie-{version}-linux-aarch64"
    library = DEBIAN / "lib" / "aarch64-linux-gnu" / "libz.so.1"
    pack(DEBIAN / "opt" / "dist" / "coterie", target, compiler=COMPILER, zlib_library=str(library))
    shutil.copy2(target, DEBIAN / "opt" / "coterie")
    emulated("/opt/coterie", "--version")
    size_mb = target.stat().st_size / 1e6
    print(f"{target.relative_to(ROOT)}: {size_mb:.1f} MB, made in {time.monotonic() - began_s:.0f} s")


def _call(*command: object, env: dict[str, str] | None = None) -> None:
    subprocess.run([str(word) for word in command], check=True, env=os.environ | (env or {}))


if __name__ == "__main__":
    main()
