"""`./run package check-image`: the image of dist/ in the Kafka modules of testcontainers for Python, Go, Node and Java, as
published, in containers of podman or of DOCKER_HOST. Each starts it, writes a record and reads it in a group.

`--sandbox` runs the containers without limits of their own, where podman may not set any.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "package" / "check"
TAGS = ("localhost/coterie:7.6.0", "localhost/coterie:7.3.0")  # two modules take the tag for Confluent's version
START_S = 30
CONTAINERS = """
[engine]
runtime = "sandbox"
cgroup_manager = "cgroupfs"
events_logger = "file"
[engine.runtimes]
sandbox = ["{runc}"]
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="./run package check-image", description=__doc__)
    parser.add_argument("--sandbox", action="store_true", help="leave out the containers' limits")
    parser.add_argument("languages", nargs="*", help="of python, go, node and java; all where none is named")
    arguments = parser.parse_args()
    sandbox, languages = arguments.sandbox, arguments.languages
    archives = sorted((ROOT / "dist").glob("coterie-*.tar"))
    if not archives:
        sys.exit("there is no image in dist/: ./run package image makes it")
    program = shutil.which("podman") or shutil.which("docker") or sys.exit("check-image needs podman or docker")
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TESTCONTAINERS_RYUK_DISABLED": "true", "GOFLAGS": "-mod=mod"}
        if sandbox:
            configuration = Path(folder) / "containers.conf"
            configuration.write_text(CONTAINERS.format(runc=HERE / "sandbox" / "runc"))
            environment |= {"CONTAINERS_CONF": str(configuration), "STORAGE_DRIVER": "vfs"}
        loaded = subprocess.run(
            [program, "load", "-q", "-i", archives[-1]], env=environment, stdout=subprocess.PIPE, text=True
        )
        name = loaded.stdout.rpartition(": ")[2].strip()
        for tag in TAGS:
            subprocess.run([program, "tag", name, tag], env=environment, check=True)
        if program.endswith("docker") or "DOCKER_HOST" in environment:
            sys.exit(_check_each(environment, languages))
        socket = Path(folder) / "podman.sock"
        # Podman's own ways of naming a container's host differ between versions; its ports are on this machine.
        environment |= {"DOCKER_HOST": f"unix://{socket}", "TESTCONTAINERS_CONNECTION_MODE": "docker_host"}
        log = (WORK / "podman.log").open("w")
        with subprocess.Popen(
            [program, "system", "service", "--time=0", f"unix://{socket}"], env=environment, stderr=log
        ) as service:
            try:
                _wait_for(socket)
                sys.exit(_check_each(environment, languages))
            finally:
                service.terminate()


def _wait_for(socket: Path) -> None:
    until_s = time.monotonic() + START_S
    while not socket.exists():
        if time.monotonic() > until_s:
            sys.exit("podman opened no socket; its log is in build/package/check/podman.log")
        time.sleep(0.1)


def _check_each(environment: dict[str, str], languages: list[str]) -> int:
    """How many failed."""
    failed = 0
    python = WORK / "venv" / "bin" / "python"
    commands: dict[str, tuple[list[list[str]], Path]] = {
        "python": (
            [
                [sys.executable, "-m", "venv", str(WORK / "venv")],
                [str(python), "-m", "pip", "install", "-q", "-r", "requirements.txt"],
                [str(python), "check.py"],
            ],
            HERE / "python",
        ),
        "go": ([["go", "test", "-count=1", "./..."]], HERE / "go"),
        "node": ([["npm", "install", "--silent", "--no-package-lock"], ["node", "--test", "check.mjs"]], HERE / "node"),
        "java": ([["mvn", "-q", "-B", "test"]], HERE / "java"),
    }
    for language in languages or commands:
        steps, source = commands[language]
        folder = WORK / language
        shutil.copytree(source, folder, dirs_exist_ok=True)
        began_s = time.monotonic()
        ended = [subprocess.run(step, cwd=folder, env=environment, check=False).returncode for step in steps]
        failed += any(ended)
        print(f"{language}: {'failed' if any(ended) else 'passed'}, {time.monotonic() - began_s:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    main()
