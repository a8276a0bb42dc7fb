"""The delegation tokens of a broker (KIP-48): kept in `delegation_tokens.json`, or in ZooKeeper in a cluster, without the
secret by which the HMAC of a token's id is its password."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from coterie.authentication.delegation_tokens import DelegationToken, TokenLimits, of_row, to_row
from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem
from coterie.wire.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from coterie.authentication.mechanisms import Account

FILE = "delegation_tokens.json"
# So that a user cannot fill the memory. A change writes the whole file in the loop: of ten thousand tokens with the longest
# names it took 207 ms, of a thousand it takes 17 ms.
MAX_TOKENS, MAX_NAMES_LENGTH = 1_000, 1_024  # of a token's owner, requester and renewers
_REMEDY = "restore it from a backup, or move it away to go on without delegation tokens"


class DelegationTokens:
    """A change is on disk when `change` returns. ``is_alone``: the broker keeps them; in a cluster `put` brings them."""

    def __init__(
        self, fs: FileSystem, limits: TokenLimits, new_id: Callable[[], bytes], *, is_alone: bool = True
    ) -> None:
        self._fs, self.limits, self._new_id = fs, limits, new_id
        self._by_id: dict[str, DelegationToken] = {}
        self._ids_by_hmac: dict[bytes, str] = {}
        self._logins: dict[tuple[str, str], Any] = {}  # credentials by id and mechanism, made at the first login
        for token in read_tokens(fs) if is_alone else ():
            self.put(token.token_id, token)

    def every(self) -> list[DelegationToken]:
        return list(self._by_id.values())

    def by_hmac(self, hmac: bytes) -> DelegationToken | None:
        """The token of a password; None for an unknown one."""
        return self._by_id.get(self._ids_by_hmac.get(hmac, ""))

    def new_id(self) -> str:
        """As Kafka makes them."""
        return base64.urlsafe_b64encode(self._new_id()).decode().rstrip("=")

    def check_room(self, token: DelegationToken) -> None:
        """For one more. Raises Refusal: DELEGATION_TOKEN_AUTH_DISABLED without a secret, POLICY_VIOLATION for more than
        `MAX_TOKENS`, or names longer than `MAX_NAMES_LENGTH`."""
        self.limits.check_enabled()
        names = sum(len(one.name) for one in (token.owner, token.requester, *token.renewers))
        if len(self._by_id) >= MAX_TOKENS or names > MAX_NAMES_LENGTH:
            raise Refusal(ErrorCode.POLICY_VIOLATION)

    def put(self, token_id: str, token: DelegationToken | None) -> None:
        """Puts a token in force, or ends it (None); nothing is written."""
        if token is None:
            if self._by_id.pop(token_id, None) is not None:
                self._ids_by_hmac.pop(self.limits.hmac_of(token_id), None)
                self._logins = {key: kept for key, kept in self._logins.items() if key[0] != token_id}
        else:
            self._by_id[token_id] = token
            self._ids_by_hmac[self.limits.hmac_of(token_id)] = token_id

    def change(self, changes: Iterable[tuple[str, DelegationToken | None]]) -> None:
        """As `put`, and on disk. Raises OSError, and then nothing has changed."""
        changed = dict(changes)
        after = [token for token in (self._by_id | changed).values() if token is not None]
        self._fs.write_file(FILE, checked_files.to_json([to_row(token) for token in after]))
        for token_id, token in changed.items():
            self.put(token_id, token)

    def replace(self, tokens: Mapping[str, DelegationToken | None], *, is_all: bool) -> None:
        """As `put` of each; ``is_all``: there are no others."""
        for token_id in list(self._by_id) if is_all else ():
            if token_id not in tokens:
                self.put(token_id, None)
        for token_id, token in tokens.items():
            self.put(token_id, token)

    def remove(self, token_ids: Collection[str]) -> None:
        """Of a broker alone. Raises OSError."""
        if token_ids:
            self.change((token_id, None) for token_id in token_ids)

    def expired(self, now_ms: int) -> list[str]:
        """The ids of the tokens whose time is over."""
        return [token.token_id for token in self._by_id.values() if token.is_expired(now_ms)]

    def login(self, token_id: str, mechanism: str, now_ms: int) -> Account | None:
        """What a login by a token is checked by; None for one that is unknown or has ended, and where there are none: by an
        empty secret everybody could compute a password."""
        token = self._by_id.get(token_id)
        if token is None or token.is_expired(now_ms) or not self.limits.secret:
            return None
        from coterie.authentication.mechanisms import Account, credential_of, salted
        from coterie.authentication.sasl import MIN_ITERATIONS

        key = token_id, mechanism
        if key not in self._logins:
            password = self.limits.hmac_of(token_id)
            salt = self.limits.hmac_of(f"salt of {token_id}")[:24]
            keys = salted(mechanism, base64.b64encode(password).decode(), salt, MIN_ITERATIONS)
            self._logins[key] = credential_of(mechanism, keys, salt, MIN_ITERATIONS)
        return Account(self._logins[key], token.owner.name, min(token.expires_ms, token.max_ms))


def read_tokens(fs: FileSystem) -> list[DelegationToken]:
    """Of a broker alone. Raises UnreadableFile."""
    if not fs.exists(FILE):
        return []
    try:
        return [of_row(row) for row in checked_files.read_json(fs, FILE, _REMEDY)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableFile(FILE, "it does not hold delegation tokens", _REMEDY) from error
