"""The files of the image, started as a module of testcontainers does.

`python -m tests.package.started_image NUMBER FOLDER [IMAGE]`: NUMBER is a row of MODULE_STARTS. FOLDER gets its root,
a copy of IMAGE (release/image), in which the program is coterie of this environment. `./run package image` leaves an image with
a program of its own in build/package/image. It takes root, on Linux, in the namespaces that `unshare` gives: it changes the
host's name and mounts files.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from coterie.client import Consumer, Producer
from tests.package.fresh_environment import ROOT
from tests.package.kafka_modules import MODULE_STARTS, ModuleStart

IMAGE = ROOT / "release" / "image"
NAMESPACES = ("unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
HOSTNAME, USER, HOME = "5ca1ab1e0000", 1000, "/home/appuser"
VARIABLES = {"PATH": "/opt/coterie:/usr/bin:/bin", "HOME": HOME, "HOSTNAME": HOSTNAME}  # Containerfile's
MAPPED = 49_153
START_S = 60.0
# What the scripts of image and modules call, besides bash and nc.
PROGRAMS = ("awk", "base64", "cat", "cut", "grep", "head", "hostname", "sed", "sh", "sleep", "tr", "true")
_LISTENER = """\
import socket, sys
with socket.create_server(("", int(sys.argv[sys.argv.index("-p") + 1]))) as server:
    while True:
        server.accept()[0].close()
"""
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


def prepare(root: Path, image: Path) -> None:
    """The tree that the Containerfile copies, and what a container's engine adds."""
    for part in ("rootfs", "owned"):
        shutil.copytree(image / part, root, symlinks=True, dirs_exist_ok=True)
    for path in ("tmp", "proc", "dev", "usr/sbin", "bin"):
        (root / path).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for owned in (image / "owned").rglob("*"):
        target = root / owned.relative_to(image / "owned")
        os.chown(target, USER, USER)
    (root / "etc" / "hosts").write_text(f"127.0.0.1 localhost {HOSTNAME}\n")
    for device in ("null", "urandom"):
        _mount(root, Path("/dev") / device)
    _mount(root, Path("/proc"))
    (root / "dev" / "fd").symlink_to("/proc/self/fd")
    if not (root / "opt" / "coterie").exists():
        _program(root)


def _program(root: Path) -> None:
    """coterie of this environment, with the machine's libraries and shell."""
    for name in ("lib", "lib64"):
        path = Path("/") / name
        if path.is_symlink():
            (root / name).symlink_to(path.readlink())
        elif path.exists():
            _mount(root, path)
    python = Path(sys.executable).resolve()
    folders = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    for path in {python, Path("/usr/lib"), Path("/usr/lib64"), Path(sys.base_prefix) / "lib", ROOT / "src", *folders}:
        if path.exists():
            _mount(root, path)
    search = ":".join(map(str, dict.fromkeys((ROOT / "src", *folders))))
    program = root / "opt" / "coterie" / "coterie"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/bash\nPYTHONPATH={search} exec {python} -m coterie "$@"\n')
    program.chmod(0o755)
    _shell(root, shutil.which("busybox"), python)


def _shell(root: Path, busybox: str | None, python: Path) -> None:
    """bash, and busybox as in the image; where the machine has none, its own programs of the same names."""
    shutil.copy2(str(shutil.which("bash")), root / "bin" / "bash")
    if busybox is not None:
        shutil.copy2(busybox, root / "bin" / "busybox")
        applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
        for applet in set(applets) - {"bash", "busybox"}:
            (root / "bin" / applet).symlink_to("busybox")
        return
    for name in PROGRAMS:
        shutil.copy2(Path(str(shutil.which(name))).resolve(), root / "bin" / name)
    listener = root / "bin" / "nc"  # -ll -p PORT -e true
    listener.write_text(f"#!{python}\n{_LISTENER}")
    listener.chmod(0o755)


def _mount(root: Path, path: Path) -> None:
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.mkdir(exist_ok=True) if path.is_dir() else target.touch()
    subprocess.run(["mount", "--rbind", path, target], check=True)


def _loopback_up() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


class Container:
    """The processes of a start; its namespace ends them."""

    def __init__(self, root: Path, start: ModuleStart) -> None:
        self._root = root
        self._environment = VARIABLES | start.environment
        self._log = (root.parent / "log").open("wb")
        self.begin("/bin/sh", "-c", start.command.format(path=start.path))

    def begin(self, *command: str) -> subprocess.Popen[bytes]:
        """The command as the image's user in the image's files."""
        return subprocess.Popen(
            command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            preexec_fn=self._enter,
        )

    def _enter(self) -> None:
        os.chroot(self._root)
        os.chdir(HOME)
        os.setgroups([])
        os.setgid(USER)
        os.setuid(USER)

    @property
    def lines(self) -> list[str]:
        return (self._root.parent / "log").read_text().splitlines()

    def is_ready(self, start: ModuleStart) -> bool:
        if start.ready:
            return any(re.match(start.ready, line) for line in self.lines)
        return all(_takes_connections(port) and self._is_listening(port) for port in start.ports)

    def _is_listening(self, port: int) -> bool:
        """The first of the three commands by which Node's module asks within the container."""
        command = f"cat /proc/net/tcp* | awk '{{print $2}}' | grep -i :{port:04x}"
        return self.begin("/bin/sh", "-c", command).wait() == 0


def _takes_connections(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionResetError):  # the client has gone, with a response under way
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


async def read_back(port: int) -> str:
    """A record's value, written through the mapped port and read in a group."""
    passages: list[asyncio.Task[None]] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        for passage in (_pass_on(reader, inner_writer), _pass_on(inner_reader, writer)):
            passages.append(asyncio.create_task(passage))

    settings = {"bootstrap.servers": f"localhost:{MAPPED}"}
    async with await asyncio.start_server(connected, "127.0.0.1", MAPPED):
        async with Producer(settings) as producer:
            await (await producer.send("t", b"hello"))
        async with Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["t"])
            record = await anext(aiter(consumer))
        await asyncio.gather(*passages)
    return (record.value or b"").decode()


def main(number: str, folder: str, image: str = str(IMAGE)) -> None:
    start, root = MODULE_STARTS[int(number)], Path(folder) / "root"
    root.mkdir()
    socket.sethostname(HOSTNAME)
    _loopback_up()
    prepare(root, Path(image))
    began_s = time.monotonic()
    container = Container(root, start)
    copied = root / f"{start.path}.copied".lstrip("/")
    copied.write_text(start.script(HOSTNAME, MAPPED))
    copied.chmod(0o777)
    copied.rename(root / start.path.lstrip("/"))
    while not container.is_ready(start):
        if time.monotonic() - began_s > START_S:
            sys.exit("\n".join(["not ready:", *container.lines]))
        time.sleep(0.1)
    ready_s = time.monotonic() - began_s
    value = asyncio.run(asyncio.wait_for(read_back(start.port), START_S))
    healthy = container.begin("/usr/bin/healthy").wait() == 0
    print(json.dumps({"name": start.name, "ready_s": round(ready_s, 2), "value": value, "healthy": healthy}))


if __name__ == "__main__":
    main(*sys.argv[1:])
