"""The processes of `coterie cluster`: ZooKeeper and the brokers of a folder, started, recognised later and stopped.

DIR/cluster.json    their ports and pids, and the brokers' settings
DIR/zookeeper/      ZooKeeper's data and log
DIR/broker-1/       a broker's data folder
DIR/broker-1.log    what it wrote
of a secure one     `ClusterSecrets`
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from coterie.authentication.mechanisms import credential_of, salted
from coterie.authentication.sasl import MIN_ITERATIONS
from coterie.broker.clients.users_file import line_of
from coterie.broker.settings import read_properties
from coterie.broker.settings.tables.broker_table import KAFKA_AUTHORIZERS
from coterie.pipeline.session import JavaMissing
from coterie.testing.local_zookeeper import LocalZooKeeper
from coterie.testing.security.certificates import AUTHORITY, KEYS, make_certificates, write_secret
from coterie.text.addresses import format_address

PROTOCOL, MECHANISM = "SASL_SSL", "SCRAM-SHA-512"
BROKERS_USER, ADMINISTRATOR = "broker", "admin"
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_ADDRESS = "bootstrap.servers"
HOST = "127.0.0.1"
READY = "listening on"
ANY_PORTS = range(20_000, 30_000)
LAST_PORT = 65_535
START_S, STOP_S, LOOK_S = 120.0, 120.0, 0.05  # fsyncs may take long on a busy disk
TICK_MS = 1_000  # sessions of 2 to 20 s
_STATE = "cluster.json"


class ClusterSecrets:
    """Of the cluster in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "secrets"
        self.client_properties = folder / "client.properties"
        self.broker_properties = self._folder / "broker.properties"

    def make(self) -> None:
        """Makes what is missing. Raises ExtraMissing, OSError."""
        if self.client_properties.exists():
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_certificates(self._folder, "coterie cluster start --secure")
        passwords = {user: secrets.token_urlsafe(24) for user in (BROKERS_USER, ADMINISTRATOR)}
        lines = [_users_line(user, password) for user, password in passwords.items()]
        write_secret(self._folder / "users", "".join(f"{line}\n" for line in lines).encode())
        login = f"listener.name.{PROTOCOL.lower()}.{MECHANISM.lower()}.sasl.jaas.config"
        of_brokers = {
            "security.inter.broker.protocol": PROTOCOL,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            "sasl.enabled.mechanisms": MECHANISM,
            "coterie.sasl.users.file": str(self._folder / "users"),
            login: _login(BROKERS_USER, passwords[BROKERS_USER]),
            "ssl.keystore.location": str(self._folder / KEYS),
            "ssl.truststore.location": str(self._folder / AUTHORITY),
            "authorizer.class.name": KAFKA_AUTHORIZERS[1],
            "super.users": f"User:{BROKERS_USER};User:{ADMINISTRATOR}",
            "zookeeper.set.acl": "true",
            "coterie.zookeeper.digest": f"{BROKERS_USER}:{secrets.token_urlsafe(24)}",
        }
        _write(self.broker_properties, of_brokers)
        of_administrators = {
            "security.protocol": PROTOCOL,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._folder / AUTHORITY),
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": _login(ADMINISTRATOR, passwords[ADMINISTRATOR]),
        }
        _write(self.client_properties, of_administrators)

    def client_settings(self) -> dict[str, str]:
        """Of an administrator, without the address. Raises OSError."""
        settings = read_properties(self.client_properties.read_text("latin-1"))
        return {name: value for name, value in settings.items() if name != _ADDRESS}

    def addressed(self, bootstrap_servers: str) -> None:
        """Writes the address into client.properties. Raises OSError."""
        _write(self.client_properties, {_ADDRESS: bootstrap_servers} | self.client_settings())


def _users_line(user: str, password: str) -> str:
    salt = secrets.token_bytes(16)
    derived = salted(MECHANISM, password, salt, MIN_ITERATIONS)
    return line_of(user, MECHANISM, credential_of(MECHANISM, derived, salt, MIN_ITERATIONS))


def _login(user: str, password: str) -> str:
    return f'{_LOGIN_MODULE} required username="{user}" password="{password}";'


def _write(path: Path, settings: dict[str, str]) -> None:
    write_secret(path, "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items()).encode("latin-1"))


def _escaped(value: str) -> str:
    """As java.util.Properties reads it: a path may have a backslash, and characters beyond Latin-1."""
    return value.replace("\\", "\\\\").encode("latin-1", "backslashreplace").decode("latin-1").replace("\\x", "\\u00")


class ClusterTrouble(RuntimeError):
    """The cluster cannot be started or found; says what to do."""


@dataclass
class ClusterState:
    """``brokers``: their ports by id; ``settings`` of each of them; ``pids`` of the last start, by a broker's id or
    "zookeeper"."""

    zookeeper_port: int
    brokers: dict[int, int]
    settings: dict[str, str] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    is_secure: bool = False


def read_state(folder: Path) -> ClusterState | None:
    """None where no cluster was started in the folder. Raises ClusterTrouble."""
    path = folder / _STATE
    try:
        kept = json.loads(path.read_text("utf-8"))
        brokers = {int(broker): int(port) for broker, port in kept["brokers"].items()}
        pids = {str(name): int(pid) for name, pid in kept["pids"].items()}
        is_secure = bool(kept.get("is_secure"))  # an earlier version wrote none
        return ClusterState(int(kept["zookeeper_port"]), brokers, dict(kept["settings"]), pids, is_secure)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ClusterTrouble(f"{path} does not describe a cluster; restore it, or choose another --data") from error


def command_of(pid: int) -> str:
    """The command line of a process; "" where there is none, or nothing but its exit code is left."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    if Path("/proc/self").exists():
        return ""
    done = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()


@contextlib.contextmanager
def _of_the_secrets() -> Iterator[None]:
    """Raises ClusterTrouble for files that cannot be written or read."""
    try:
        yield
    except OSError as error:
        text = f"{error.filename} of the secure cluster cannot be used: {error.strerror}; restore it, or choose another --data"
        raise ClusterTrouble(text) from error


class LocalCluster:
    """The cluster of a folder. A process is one of its own only while its command names its part of the folder: pids are used
    again. ``started``: the processes of brokers that this object has started."""

    def __init__(self, folder: Path, state: ClusterState) -> None:
        self.folder, self.state = folder.resolve(), state
        zookeeper = self.folder / "zookeeper"
        self._zookeeper = LocalZooKeeper(zookeeper, tick_ms=TICK_MS, port=state.zookeeper_port, outlives=True)
        self.started: dict[int, subprocess.Popen[bytes]] = {}
        self.secrets = ClusterSecrets(self.folder) if state.is_secure else None

    @property
    def zookeeper(self) -> str:
        """HOST:PORT."""
        return self._zookeeper.address

    def address(self, broker: int) -> str:
        return format_address(HOST, self.state.brokers[broker])

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(self.address(broker) for broker in sorted(self.state.brokers))

    def client_settings(self, *brokers: int) -> dict[str, str]:
        """Of an administrator of these brokers, or of all. Raises ClusterTrouble."""
        address = ",".join(map(self.address, brokers)) or self.bootstrap_servers
        with _of_the_secrets():
            return {"bootstrap.servers": address} | ({} if self.secrets is None else self.secrets.client_settings())

    # -- which run ------------------------------------------------------------------------------------------------------

    def pid(self, broker: int) -> int | None:
        """The process id of a broker that runs."""
        return self._pid(str(broker), f"--data {self._data(broker)} ")

    def zookeeper_pid(self) -> int | None:
        """The process id of ZooKeeper while it runs."""
        return self._pid("zookeeper", f"{self.folder / 'zookeeper' / 'zoo.cfg'}")

    def _pid(self, name: str, words: str) -> int | None:
        for process in self.started.values():
            process.poll()  # or its exit code is left
        pid = self.state.pids.get(name)
        return pid if pid is not None and words in f"{command_of(pid)} " else None

    def running(self) -> list[int]:
        """The brokers that run; a later start may have added some."""
        kept = read_state(self.folder)
        if kept is not None:
            self.state.brokers |= kept.brokers
            self.state.pids |= kept.pids
        return [broker for broker in sorted(self.state.brokers) if self.pid(broker) is not None]

    def _data(self, broker: int) -> Path:
        return self.folder / f"broker-{broker}"

    def _log(self, broker: int) -> Path:
        return self.folder / f"broker-{broker}.log"

    # -- start ----------------------------------------------------------------------------------------------------------

    async def start(self, stop: asyncio.Event) -> None:
        """Starts what does not run; returns once each broker is registered, or ``stop`` is set. Raises ClusterTrouble,
        JavaMissing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.secrets is not None:
            with _of_the_secrets():
                self.secrets.make()
                self.secrets.addressed(self.bootstrap_servers)
        if self.zookeeper_pid() is None:
            try:
                await asyncio.to_thread(self._zookeeper.start)
            except JavaMissing:
                raise
            except RuntimeError as error:
                raise ClusterTrouble(str(error)) from error
            assert self._zookeeper.process is not None
            self.state.pids["zookeeper"] = self._zookeeper.process.pid
            self._save()
        begun = {}
        for broker in self.state.brokers:
            if self.pid(broker) is None and not stop.is_set():
                begun[broker] = self._begin(broker)
        self._save()
        await self._until_registered(begun, stop)

    def _begin(self, broker: int) -> int:
        """Returns where the broker's log ended before."""
        settings = {**self.state.settings, "broker.id": str(broker), "zookeeper.connect": self.zookeeper}
        command = [sys.executable, "-m", "coterie", "broker", "--data", str(self._data(broker))]
        if self.secrets is None:
            command += ["--listen", self.address(broker)]
        else:
            command += ["--properties", str(self.secrets.broker_properties)]
            settings["listeners"] = f"{PROTOCOL}://{self.address(broker)}"
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        with self._log(broker).open("ab") as log:
            size = log.tell()
            # In a session of its own: Ctrl-C is for the command, which stops the brokers in order.
            self.started[broker] = process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.state.pids[str(broker)] = process.pid
        return size

    async def _until_registered(self, begun: dict[int, int], stop: asyncio.Event) -> None:
        waiting, end_s = dict(begun), time.monotonic() + START_S
        while waiting and not stop.is_set():
            for broker, size in list(waiting.items()):
                written = self._log(broker).read_bytes()[size:].decode(errors="replace")
                if any(line.startswith(READY) for line in written.splitlines()):
                    del waiting[broker]
                elif self.started[broker].poll() is not None:
                    last = (written.splitlines() or ["it wrote nothing"])[-1].removeprefix("Error: ")
                    raise ClusterTrouble(f"broker {broker} did not start: {last}")
            if time.monotonic() > end_s:
                raise ClusterTrouble(
                    f"broker {next(iter(waiting))} is not ready after {START_S:g} s: see {self.folder}"
                )
            await asyncio.sleep(LOOK_S)

    def _save(self) -> None:
        beside = self.folder / f"{_STATE}.tmp"
        beside.write_text(json.dumps(asdict(self.state), indent=1), "utf-8")
        os.replace(beside, self.folder / _STATE)

    # -- the end --------------------------------------------------------------------------------------------------------

    def ended(self) -> Iterator[tuple[int, int]]:
        """Brokers that were started here and have ended since the last call, with their exit codes."""
        for broker, process in list(self.started.items()):
            if process.poll() is not None:
                del self.started[broker]
                yield broker, process.returncode

    async def stop(self, last: int | None = None) -> list[str]:
        """Each broker in order, and then ZooKeeper; ``last``: the controller, so that no other has to be elected meanwhile.
        Returns what did not end in order."""
        brokers = sorted(self.running(), key=lambda broker: (broker == last, broker))
        complaints = [await self._end(f"broker {broker}", partial(self.pid, broker)) for broker in brokers]
        complaints.append(await self._end("ZooKeeper", self.zookeeper_pid))
        return [complaint for complaint in complaints if complaint]

    async def _end(self, name: str, pid_of: Callable[[], int | None]) -> str:
        """SIGTERM, and SIGKILL where that does not help."""
        for number, complaint in ((signal.SIGTERM, ""), (signal.SIGKILL, f"{name} did not end and was killed")):
            pid, end_s = pid_of(), time.monotonic() + STOP_S
            if pid is None:
                return ""
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            while pid_of() is not None and time.monotonic() < end_s:
                await asyncio.sleep(LOOK_S)
            if pid_of() is None:
                return complaint
        return f"{name} cannot be ended"


def free_ports(wanted: Iterable[int]) -> list[int]:
    """The ports, each 0 replaced by a free one. Raises ClusterTrouble where one is in use, or is no port."""
    ports = list(wanted)
    if ports and max(ports) > LAST_PORT:
        raise ClusterTrouble(f"there is no port {max(ports)}, only up to {LAST_PORT}; choose a lower --port")
    with contextlib.ExitStack() as held:
        return [held.enter_context(_bound(port)).getsockname()[1] for port in ports]


def _bound(port: int) -> socket.socket:
    """0 is one below the ports that systems give to connections (from 32,768 on Linux), so that it can be had again later."""
    first, number = ANY_PORTS.start, len(ANY_PORTS)
    tries = [port] if port else [first + (os.getpid() + index) % number for index in range(number)]
    failure: OSError | None = None
    for tried in tries:
        one = socket.socket()
        if port:  # as the server that takes it; with it, two sockets that do not listen have the same port
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, tried))
        except OSError as error:
            one.close()
            failure = error
        else:
            return one
    assert failure is not None
    raise ClusterTrouble(f"port {tries[-1]} cannot be used: {failure.strerror}; choose another --port") from failure
