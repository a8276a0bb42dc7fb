"""Logins of clients by SASL: for each listener its mechanisms, and an exchange with the users that it may have."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from coterie.authentication.sasl import HASHES, MECHANISMS, BadJaas, Exchange, begin, users_of
from coterie.broker.clients.delegation_tokens import DelegationTokens
from coterie.broker.clients.scram_credentials import ScramCredentials
from coterie.broker.clients.users_file import UsersFiles
from coterie.broker.settings import BrokerSettings, SettingError
from coterie.broker.settings.tables.security_table import SecurityConfig

if TYPE_CHECKING:
    from coterie.authentication.mechanisms import Account

LONG = frozenset({"PLAIN", "OAUTHBEARER"})  # whose steps take milliseconds, for a thread
_NONCE_BYTES = 24


class Logins:
    """``now_ms``: since the epoch."""

    def __init__(
        self,
        settings: BrokerSettings,
        credentials: ScramCredentials,
        tokens: DelegationTokens,
        now_ms: Callable[[], int],
    ) -> None:
        self._settings, self._credentials, self._tokens, self._now_ms = settings, credentials, tokens, now_ms
        self._secret = os.urandom(32)  # of the credentials that unknown users are given
        self._files = UsersFiles()

    def mechanisms(self, listener: str) -> list[str]:
        """Of sasl.enabled.mechanisms what is served."""
        enabled = self._settings.security(listener).sasl_enabled_mechanisms
        return [name for name in enabled if name in MECHANISMS]

    def check(self, listener: str) -> None:
        """Raises SettingError for a listener with SASL by which nobody could log in."""
        mechanisms, enabled = self.mechanisms(listener), self._settings.security(listener).sasl_enabled_mechanisms
        if not mechanisms:
            raise SettingError(
                f"sasl.enabled.mechanisms must name one of {', '.join(MECHANISMS)} for the listener {listener}, "
                f"not {', '.join(enabled) or 'none'}"
            )
        for mechanism in mechanisms:
            self._check(listener, mechanism, self._settings.security(listener, mechanism))

    def _check(self, listener: str, mechanism: str, config: SecurityConfig) -> None:
        if config.coterie_sasl_users_file is not None:
            self._files.check(config.coterie_sasl_users_file)
        if mechanism == "PLAIN":
            if not config.sasl_jaas_config and not config.coterie_sasl_users_file:
                raise SettingError(
                    f"PLAIN needs users: listener.name.{listener.lower()}.plain.sasl.jaas.config with PlainLoginModule and "
                    'user_NAME="PASSWORD", or coterie.sasl.users.file'
                )
            _passwords(config)
        if mechanism == "OAUTHBEARER":
            from coterie.broker.clients.bearer_tokens import check_settings

            check_settings(config)

    def begin(self, listener: str, mechanism: str) -> Exchange:
        """An exchange that waits for the client's first token."""
        config = self._settings.security(listener, mechanism)
        if mechanism in HASHES:
            import secrets  # with OpenSSL's digests: 1.5 ms of a start

            from coterie.authentication.mechanisms import scram

            lookup = partial(self._account, config, mechanism)
            return begin(scram(mechanism, lookup, secrets.token_urlsafe(_NONCE_BYTES)))
        if mechanism == "PLAIN":
            from coterie.authentication.mechanisms import plain

            return begin(plain(partial(self._is_password, config)))
        from coterie.authentication.mechanisms import oauthbearer
        from coterie.broker.clients.bearer_tokens import validator

        return begin(oauthbearer(validator(config, self._now_ms)))

    def _account(self, config: SecurityConfig, mechanism: str, user: str, is_token: bool) -> Account:
        from coterie.authentication.mechanisms import Account, nobodys

        if is_token and (token := self._tokens.login(user, mechanism, self._now_ms())) is not None:
            return token
        kept = None if is_token else self._credentials.credential(user, mechanism)
        if kept is None and not is_token and config.coterie_sasl_users_file is not None:
            kept = self._files.credential(config.coterie_sasl_users_file, user, mechanism)
        return Account(nobodys(mechanism, user, self._secret) if kept is None else kept, user)

    def _is_password(self, config: SecurityConfig, user: str, password: str) -> bool:
        from coterie.authentication.mechanisms import is_password, is_password_of, nobodys

        is_right = is_password_of(_passwords(config), user, password)
        if config.coterie_sasl_users_file is None:
            return is_right
        mechanism, kept = self._files.any_credential(config.coterie_sasl_users_file, user)
        return is_password(mechanism, kept or nobodys(mechanism, user, self._secret), password) or is_right

    def session_ms(self, listener: str, mechanism: str, expires_ms: int | None) -> int | None:
        """How long a login lasts: until its token ends, and at most connections.max.reauth.ms; None for ever."""
        at_most_ms = self._settings.security(listener, mechanism).connections_max_reauth_ms
        left_ms = None if expires_ms is None else max(0, expires_ms - self._now_ms())
        ends = [ms for ms in (left_ms, at_most_ms if at_most_ms > 0 else None) if ms is not None]
        return min(ends, default=None)

    def failure_delay_s(self, listener: str) -> float:
        """How long the response to a login that failed waits."""
        return self._settings.security(listener).connection_failed_authentication_delay_ms / 1000


def _passwords(config: SecurityConfig) -> dict[str, str]:
    """Raises SettingError."""
    try:
        return _users_of(config.sasl_jaas_config or "")
    except BadJaas as error:
        raise SettingError(str(error)) from None


@lru_cache(maxsize=16)
def _users_of(text: str) -> dict[str, str]:
    return users_of(text) if text else {}
