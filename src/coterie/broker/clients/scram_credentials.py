"""SCRAM credentials of users (KIP-554), kept in `scram_credentials.json`: salts and keys, never passwords.

They can be set, described and removed, and listeners with SASL request them. The rules are those of Kafka's
ScramControlManager.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterable
from dataclasses import dataclass

from coterie.authentication.sasl import MAX_ITERATIONS, MIN_ITERATIONS, ScramCredential, ScramMechanism
from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem
from coterie.wire.errors import ErrorCode, Refusal

_FILE = "scram_credentials.json"


KeptCredential = dict[str, str | int]  # salt, stored_key and server_key in base64, iterations


@dataclass(frozen=True, slots=True)
class Credential:
    """One user's with one mechanism. ``salted_password`` is what a client computes of its password; None removes."""

    user: str
    mechanism: int
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes | None = None


Change = tuple[Credential, KeptCredential | None]


class ScramCredentials:
    """The credentials of a broker. Changes are on disk when `altering` returns. ``is_alone``: the broker keeps them; in a
    cluster `put` brings them."""

    def __init__(self, fs: FileSystem, *, is_alone: bool = True) -> None:
        self._fs = fs
        self._by_user: dict[str, dict[str, KeptCredential]] = {}  # user -> mechanism's name -> what is kept
        if is_alone and fs.exists(_FILE):
            remedy = "restore it from a backup, or move it away to go on without credentials"
            self._by_user = checked_files.read_json(fs, _FILE, remedy)
            if not isinstance(self._by_user, dict) or not all(isinstance(u, dict) for u in self._by_user.values()):
                raise UnreadableFile(_FILE, "it does not hold credentials", remedy)

    def put(self, user: str, kept: dict[str, KeptCredential]) -> None:
        """Puts what a user of a cluster has, by the names of mechanisms, in force; nothing is written."""
        if kept:
            self._by_user[user] = kept
        else:
            self._by_user.pop(user, None)

    def users(self) -> list[str]:
        return list(self._by_user)

    def iterations(self, user: str) -> dict[ScramMechanism, int]:
        """The iterations of each mechanism that the user has, by number; empty for a user without any."""
        kept = self._by_user.get(user, {})
        return {m: int(kept[m.name]["iterations"]) for m in ScramMechanism if m.name in kept}

    def credential(self, user: str, mechanism: str) -> ScramCredential | None:
        """What a login by a mechanism of SASL is checked by; None where the user has none of it."""
        kept = self._by_user.get(user, {}).get(mechanism.replace("-", "_"))
        if kept is None:
            return None
        salt, stored_key, server_key = (
            base64.b64decode(str(kept[name])) for name in ("salt", "stored_key", "server_key")
        )
        return ScramCredential(salt, int(kept["iterations"]), stored_key, server_key)

    def altering(self, changes: Iterable[Credential]) -> Generator[None, None, dict[str, Refusal | None]]:
        """Applies each change that is in order, with one write after the last step; returns the result by user."""
        results, accepted = yield from self.checked(changes)
        if accepted:
            try:
                self._keep(accepted.values())
            except OSError as error:
                text = f"the credentials cannot be written: {error.strerror}"
                results |= dict.fromkeys(accepted, Refusal(ErrorCode.KAFKA_STORAGE_ERROR, text))
        return results

    def checked(
        self, changes: Iterable[Credential]
    ) -> Generator[None, None, tuple[dict[str, Refusal | None], dict[str, Change]]]:
        """The result of each user, and the changes that are in order with what is to be kept, None for a removal. A user that
        comes twice has neither."""
        results: dict[str, Refusal | None] = {}
        accepted: dict[str, Change] = {}
        for change in changes:
            if results.get(change.user) is not None:
                continue  # the first refusal of a user stands
            try:
                if change.user in accepted:
                    del accepted[change.user]
                    raise Refusal(ErrorCode.DUPLICATE_RESOURCE, "a request may change one credential of a user")
                self._check(change)
                accepted[change.user], results[change.user] = (change, _kept(change)), None
            except Refusal as refusal:
                results[change.user] = refusal
            yield
        return results, accepted

    def _check(self, change: Credential) -> None:
        if not change.user:
            raise Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the name of a user must not be empty")
        if change.mechanism not in list(ScramMechanism):
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

    def _keep(self, changes: Iterable[Change]) -> None:
        """Writes what is after the changes, and puts it in force. Raises OSError."""
        by_user = dict(self._by_user)
        for change, kept in changes:
            credentials = dict(by_user.get(change.user, {}))
            credentials.pop(ScramMechanism(change.mechanism).name, None)
            if kept is not None:
                credentials[ScramMechanism(change.mechanism).name] = kept
            if credentials:
                by_user[change.user] = credentials
            else:
                by_user.pop(change.user, None)
        self._fs.write_file(_FILE, checked_files.to_json(by_user))
        self._by_user = by_user


def _kept(change: Credential) -> KeptCredential | None:
    """What a broker needs to check a login, in base64; None for a removal."""
    if change.salted_password is None:
        return None
    from coterie.authentication.mechanisms import credential_of  # with OpenSSL's digests: 1.5 ms of a start

    name = ScramMechanism(change.mechanism).sasl_name
    keys = credential_of(name, change.salted_password, change.salt, change.iterations)
    parts = {"salt": keys.salt, "stored_key": keys.stored_key, "server_key": keys.server_key}
    return {"iterations": keys.iterations} | {name: base64.b64encode(part).decode() for name, part in parts.items()}
