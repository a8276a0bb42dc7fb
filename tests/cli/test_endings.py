"""How commands end: an interrupt at any moment, and an output that nobody reads or that is full. No traceback, one rule
for the exit code.

The moments are counted, not timed: an audit hook in the command's process sends the signal to itself at the n-th event of
a kind, so that a run on a slow machine asks the same as one on a fast machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.testing import LocalBroker

# Runs `coterie ARGS` and sends it SIGNAL at the n-th event of a kind, counted from the moment when the signals are taken;
# says on a descriptor whether that moment came.
HARNESS = """
import os, signal, sys
kind, (number, moment, report) = sys.argv[1], map(int, sys.argv[2:5])
sys.argv[1:] = sys.argv[5:]
from coterie import program
from coterie.runtime import interruption
seen, process = -1, os.getpid()  # workers are forked: a moment in one of them is none of the command's
def count(event, arguments):
    global seen
    if seen >= 0 and event == kind and os.getpid() == process:
        seen += 1
        if seen == moment:
            os.write(report, b"sent")
            os.kill(os.getpid(), number)
sys.addaudithook(count)
installed = interruption._Interruption.install
def install(self):
    global seen
    installed(self)
    seen = max(seen, 0)
interruption._Interruption.install = install
program.main()
"""


def interrupted(
    arguments: tuple[str, ...], kind: str, number: int, moment: int, address: str = "127.0.0.1:1"
) -> tuple[bool, subprocess.CompletedProcess[str]]:
    """Whether the signal was sent, and how the command ended."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", HARNESS, kind, *map(str, (int(number), moment, writing)), *arguments]
    environment = {**os.environ, "COTERIE_BOOTSTRAP_SERVER": address}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            pass_fds=[writing],
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read() == b"sent", done


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as running:
        running.create_topic("t")
        running.produce("t", *(b"%d" % n for n in range(50)))
        yield running


COMMANDS = {
    "help": ("--help",),
    "wire": ("wire",),
    "broker": ("broker", "--memory", "--listen", "127.0.0.1:0"),
    "list": ("topics", "list"),
    "consume": ("consume", "t", "--from-beginning", "--timeout-ms", "500"),
    "watch": ("groups", "watch", "nobody"),
    "produce": ("produce", "t"),
    "lab": ("lab", "migration"),
}


@pytest.mark.parametrize(
    ("name", "number"),
    [*((name, signal.SIGINT) for name in COMMANDS), ("broker", signal.SIGTERM), ("list", signal.SIGTERM)],
)
def test_an_interrupt_ends_a_command_in_order(broker: LocalBroker, name: str, number: signal.Signals) -> None:
    """At three imports, early and late, and where it connects: 130, or 0 where the command was done or runs until it is
    stopped."""
    sent_once = False
    moments = [("import", moment) for moment in (1, 30, 200)]
    for kind, moment in [*moments, ("socket.connect", 1)]:
        if kind == "socket.connect" and name not in ("list", "consume", "watch", "produce"):
            continue
        sent, done = interrupted(COMMANDS[name], kind, number, moment, broker.bootstrap_servers)
        assert "Traceback" not in done.stderr, (kind, moment, done.stderr)
        assert "Exception ignored" not in done.stderr, (kind, moment, done.stderr)
        if sent:
            sent_once = True
            assert done.returncode in (0, 130), (kind, moment, done)
    assert sent_once


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("consume", "t", "--from-beginning"), 0),
        (("consume", "t", "--group", "g", "--from-beginning"), 0),
        (("groups", "watch", "g"), 0),
        (("produce", "t"), 130),
    ],
)
def test_a_command_that_waits_is_stopped(
    broker: LocalBroker, arguments: tuple[str, ...], code: int, number: signal.Signals
) -> None:
    """Interrupted when it has written its first line, or, where it only reads, when it has asked the broker."""
    requested, group = broker.requested("Metadata"), f"g{int(number)}"
    arguments = tuple(group if word == "g" else word for word in arguments)
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers},
    )
    assert process.stdout is not None
    bound = threading.Timer(30, process.kill)
    bound.start()
    if arguments[0] == "produce":
        broker.until_requested("Metadata", requested + 1)
    else:
        assert process.stdout.readline()
    process.send_signal(number)
    assert process.wait() == code
    bound.cancel()
    assert process.stderr is not None
    assert process.stderr.read() in (b"", b"\n")


@pytest.mark.parametrize(("number", "whole_group"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_the_workers_end_with_their_command(tmp_path: Path, number: signal.Signals, whole_group: bool) -> None:
    """Ctrl-C in a terminal reaches every process of the group, SIGTERM the command alone: nobody says anything, none is
    left."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", "lab", "study", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while len(_children(process.pid)) < 2:
        assert process.poll() is None
    if whole_group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_worker_that_is_killed_is_a_sentence(tmp_path: Path) -> None:
    """As the kernel does where memory is short."""
    process = subprocess.Popen(
        [sys.executable, "-m", "coterie", "lab", "study", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while len(children := _children(process.pid)) < 2:
        assert process.poll() is None
    os.kill(children[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert b"Traceback" not in errors
    assert b"Error: a worker process was killed before it was done" in errors


def _children(pid: int) -> list[int]:
    endings = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == pid:
                endings.append(int(folder.name))
    return endings


PRINTING = [
    ("--help",),
    ("--version",),
    ("groups", "--help"),
    ("wire",),
    ("wire", "--json"),
    ("wire", "JoinGroupRequest"),
    ("topics", "list", "--internal"),
    ("topics", "describe", "t"),
    ("groups", "list"),
    ("groups", "list", "--json"),
    ("consume", "t", "--from-beginning", "-n", "50"),
    ("consume", "t", "--from-beginning", "-n", "50", "--json"),
    ("groups", "watch", "nobody", "--times", "1"),
    ("topics", "create", "made"),
    ("lab", "handover", "--members", "3", "--partitions", "4"),
    ("broker", "--memory", "--listen", "127.0.0.1:0"),
]


def _environment(broker: LocalBroker) -> dict[str, str]:
    """A person's: Python buffers what is written, and would write the rest of it at exit."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**others, "COTERIE_BOOTSTRAP_SERVER": broker.bootstrap_servers}


def _with_output(broker: LocalBroker, arguments: tuple[str, ...], output: int) -> tuple[int, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "coterie", *arguments],
        stdout=output,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=_environment(broker),
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
@pytest.mark.slow
def test_an_output_that_cannot_be_written(broker: LocalBroker, arguments: tuple[str, ...]) -> None:
    """Full: a sentence and 1. Its reader gone: silence and 141, as other tools before `| head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        code, errors = _with_output(broker, arguments, writing)
    finally:
        os.close(writing)
    refused = b"" if arguments[0] != "groups" or "watch" not in arguments else errors  # there is no such group
    assert (code, errors) == (141, b"") or refused, (code, errors)
    if arguments[:2] == ("topics", "create"):
        return  # it is there now
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        code, errors = _with_output(broker, arguments, full)
    finally:
        os.close(full)
    assert code == 1
    assert errors.count(b"\n") == 1, errors
    assert errors == b"Error: cannot write the output: No space left on device\n" or refused, errors


@pytest.mark.parametrize(
    ("redirected", "code"),
    [("2>&1", 141), (">/dev/full", 1), (">/dev/full 2>&-", 1), ("2>&-", 141)],
    ids=["errors too", "errors alone", "no errors, full", "no errors"],
)
@pytest.mark.parametrize("is_buffered", [True, False], ids=["buffered", "unbuffered"])
def test_errors_whose_reader_has_gone(broker: LocalBroker, redirected: str, code: int, is_buffered: bool) -> None:
    """As `coterie wire missing 2>&1 | head -1`; nothing can be written about it."""
    reading, writing = os.pipe()
    os.close(reading)
    missing = ("missing",) if redirected == "2>&1" else ()
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "coterie", "wire", *missing]
    environment = _environment(broker) | ({} if is_buffered else {"PYTHONUNBUFFERED": "1"})
    try:
        done = subprocess.run(command, stdout=writing, stderr=writing, timeout=60, env=environment, check=False)
    finally:
        os.close(writing)
    assert done.returncode == code


def test_what_head_did_not_show_is_not_committed(broker: LocalBroker) -> None:
    """`coterie consume -g g | head -1` reads again what its pipe did not take."""
    broker.create_topic("long")
    value = b"v" * 50_000  # more in all than a pipe holds
    for _ in range(10):
        broker.produce("long", value)
    command = [sys.executable, "-m", "coterie", "consume", "long", "-g", "head", "--from-beginning", "-n", "10"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(broker))
    assert process.stdout is not None
    assert process.stdout.readline() == value + b"\n"
    process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert 1 <= broker.committed("head")["long", 0] < 10


def test_json_on_a_closed_output_is_no_traceback(broker: LocalBroker) -> None:
    """Standard output closed altogether (`>&-`): nothing to write to, and nothing to fail."""
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "coterie", "wire", "--json"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_an_encoding_lacks_is_shown_as_an_escape() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "coterie", "wire", "ü→"]
    done = subprocess.run(command, capture_output=True, timeout=60, env=environment, check=False)
    assert done.returncode == 2
    assert "message ü\\u2192;".encode("latin-1") in done.stderr
