"""SCRAM credentials of users (KIP-554), kept in `scram_credentials.json`: salts and keys, never passwords.

They can be set, described and removed; this broker has no listener that asks for them yet. The rules are those of
Kafka's ScramControlManager; the keys are derived as in RFC 5802.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from enum import IntEnum

from coterie.lazy_dataclass import dataclass
from coterie.log import checked_files
from coterie.log.filesystem import FileSystem
from coterie.log.findings import UnreadableFile
from coterie.wire.errors import ErrorCode, Refusal

_FILE = "scram_credentials.json"
MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384


class Mechanism(IntEnum):
    """Numbered as in Kafka's requests (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


_HASHES = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}


@dataclass(frozen=True, slots=True)
class Credential:
    """One user's with one mechanism. ``salted_password`` is what a client computes of its password; None removes."""

    user: str
    mechanism: int
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes | None = None


class ScramCredentials:
    """The credentials of a broker. A change is on disk when `alter` returns."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._by_user: dict[str, dict[str, dict[str, str | int]]] = {}  # user -> mechanism's name -> what is kept
        if fs.exists(_FILE):
            remedy = "restore it from a backup, or move it away to go on without credentials"
            self._by_user = checked_files.read_json(fs, _FILE, remedy)
            if not isinstance(self._by_user, dict) or not all(isinstance(u, dict) for u in self._by_user.values()):
                raise UnreadableFile(_FILE, "it does not hold credentials", remedy)

    def users(self) -> list[str]:
        return list(self._by_user)

    def iterations(self, user: str) -> dict[Mechanism, int]:
        """The iterations of each mechanism that the user has, by number; empty for a user without any."""
        kept = self._by_user.get(user, {})
        return {m: int(kept[m.name]["iterations"]) for m in Mechanism if m.name in kept}

    def alter(self, changes: Iterable[Credential]) -> dict[str, Refusal | None]:
        """Applies each change that is in order; returns the result by user. A user that comes twice has neither."""
        results: dict[str, Refusal | None] = {}
        accepted: dict[str, Credential] = {}
        for change in changes:
            if results.get(change.user) is not None:
                continue  # the first refusal of a user stands
            try:
                if change.user in accepted:
                    del accepted[change.user]
                    raise Refusal(ErrorCode.DUPLICATE_RESOURCE, "a request may change one credential of a user")
                self._check(change)
                accepted[change.user], results[change.user] = change, None
            except Refusal as refusal:
                results[change.user] = refusal
        for change in accepted.values():
            self._apply(change)
        if accepted:
            self._fs.write_file(_FILE, checked_files.to_json(self._by_user))
        return results

    def _check(self, change: Credential) -> None:
        if not change.user:
            raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of a user must not be empty")
        if change.mechanism not in list(Mechanism):
            raise Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"there is no SCRAM mechanism {change.mechanism}")
        if change.salted_password is None:
            if change.mechanism not in self.iterations(change.user):
                raise Refusal(ErrorCode.RESOURCE_NOT_FOUND, "the user has no credential of that mechanism")
            return
        if not MIN_ITERATIONS <= change.iterations <= MAX_ITERATIONS:
            text = f"iterations must be from {MIN_ITERATIONS} to {MAX_ITERATIONS}, not {change.iterations}"
            raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
        if not change.salted_password:
            raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the salted password must not be empty")

    def _apply(self, change: Credential) -> None:
        mechanism = Mechanism(change.mechanism)
        kept = self._by_user.setdefault(change.user, {})
        if change.salted_password is not None:
            kept[mechanism.name] = _derived(change, change.salted_password, _HASHES[mechanism])
            return
        del kept[mechanism.name]
        if not kept:
            del self._by_user[change.user]


def _derived(change: Credential, salted_password: bytes, digest: str) -> dict[str, str | int]:
    """What a broker needs to check a login, base64."""
    import hashlib  # these two with OpenSSL's digests: 1.5 ms of a start
    import hmac

    client_key = hmac.digest(salted_password, b"Client Key", digest)
    parts = {
        "salt": change.salt,
        "stored_key": hashlib.new(digest, client_key).digest(),
        "server_key": hmac.digest(salted_password, b"Server Key", digest),
    }
    return {"iterations": change.iterations} | {name: base64.b64encode(part).decode() for name, part in parts.items()}
