"""A file of users with salted credentials for PLAIN and SCRAM, a line each: USER:SCRAM-SHA-256$ITERATIONS:SALT$KEY:KEY, as
PostgreSQL writes a password, with everything but the user in base64. Lines with # are comments."""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path

from coterie.authentication.sasl import HASHES, MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential
from coterie.configuration import SettingError

_LINE = re.compile(r"(?P<user>.+):(?P<mechanism>[A-Z0-9-]+)\$(?P<iterations>\d{1,9}):(?P<salt>\S+)\$(?P<keys>\S+:\S+)")
_Users = dict[tuple[str, str], ScramCredential]  # by user and mechanism


def line_of(user: str, mechanism: str, credential: ScramCredential) -> str:
    """The line of one user."""
    salt, stored, server = (
        base64.b64encode(part).decode() for part in (credential.salt, credential.stored_key, credential.server_key)
    )
    return f"{user}:{mechanism}${credential.iterations}:{salt}${stored}:{server}"


def user_of(line: str) -> tuple[str, str] | None:
    """The user and the mechanism of a line; None for a comment or a line that is none."""
    match = _LINE.fullmatch(line)
    return None if match is None else (match["user"], match["mechanism"])


def read_users(path: Path) -> _Users:
    """Raises SettingError, also where others than the owner may read the file."""
    try:
        status = path.stat()
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SettingError(f"the users of coterie.sasl.users.file cannot be read: {path}: {reason}") from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingError(f"others than its owner can read {path}, which has credentials: chmod 600 {path}")
    users: _Users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        credential = _credential(line)
        if credential is None:
            raise SettingError(
                f"{path}:{number} is not USER:MECHANISM$ITERATIONS:SALT$KEY:KEY; `coterie users add` writes it"
            )
        if not MIN_ITERATIONS <= credential[1].iterations <= MAX_ITERATIONS:  # each login by PLAIN takes as many
            raise SettingError(
                f"{path}:{number} has {credential[1].iterations} iterations, which must be from {MIN_ITERATIONS} to "
                f"{MAX_ITERATIONS}; `coterie users add` writes it"
            )
        users[credential[0]] = credential[1]
    return users


def _credential(line: str) -> tuple[tuple[str, str], ScramCredential] | None:
    match = _LINE.fullmatch(line)
    if match is None or match["mechanism"] not in HASHES:
        return None
    try:
        salt, stored, server = (
            base64.b64decode(part, validate=True) for part in (match["salt"], *match["keys"].split(":", 1))
        )
    except ValueError:
        return None
    return (match["user"], match["mechanism"]), ScramCredential(salt, int(match["iterations"]), stored, server)


class UsersFiles:
    """Files by their paths; each is read again when it changes. A file that cannot be read any more keeps its users."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[tuple[int, ...], _Users]] = {}

    def check(self, path: str) -> None:
        """Raises SettingError."""
        self._read[path] = _version(path), read_users(Path(path))

    def credential(self, path: str, user: str, mechanism: str) -> ScramCredential | None:
        """Of one user and mechanism."""
        return self._users(path).get((user, mechanism))

    def any_credential(self, path: str, user: str) -> tuple[str, ScramCredential | None]:
        """Of one user, with its mechanism; the first mechanism, and None, for an unknown user."""
        users = self._users(path)
        return next(((name, users[user, name]) for name in HASHES if (user, name) in users), (next(iter(HASHES)), None))

    def _users(self, path: str) -> _Users:
        version = _version(path)
        known = self._read.get(path)
        if known is not None and known[0] == version:
            return known[1]
        try:
            users = read_users(Path(path))
        except SettingError:
            if known is None:
                return {}
            users = known[1]
        self._read[path] = version, users
        return users


def _version(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns
