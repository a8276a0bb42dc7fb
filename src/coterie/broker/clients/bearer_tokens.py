"""Tokens of OAUTHBEARER: JSON Web Tokens (RFC 7519), whose signatures the library of the extra `oauth` checks.

The rules are those of Kafka's DefaultJwtValidator: a signature by one of the keys of the JWKS, an end, a subject, and the
issuer and audience where the settings name them.
"""

from __future__ import annotations

import json
import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

from coterie.authentication.mechanisms import InvalidToken, TokenClaims
from coterie.broker.settings.tables.security_table import SecurityConfig
from coterie.configuration import SettingError
from coterie.runtime.extras import require

logger = logging.getLogger(__name__)

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
MAX_KEYS_BYTES = 1_048_576
_TIMEOUT_S = 5.0
_LAST_S = 1e12
_RETRY_S = 10.0  # for a key that the JWKS does not have


def check_settings(config: SecurityConfig) -> None:
    """Raises SettingError where no token could be accepted, ExtraMissing."""
    require("oauth", "OAUTHBEARER")
    url = config.sasl_oauthbearer_jwks_endpoint_url
    if url is None:
        if not config.coterie_sasl_oauthbearer_unsecured_enable:
            raise SettingError("OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, the keys that sign tokens")
    elif url not in config.coterie_sasl_oauthbearer_allowed_urls:
        raise SettingError(
            f"coterie.sasl.oauthbearer.allowed.urls must have the URL of sasl.oauthbearer.jwks.endpoint.url: {url}"
        )
    elif not url.startswith(("https://", "file:///")):
        raise SettingError(f"sasl.oauthbearer.jwks.endpoint.url must be an https or file URL, not {url}")


class SigningKeys:
    """The keys of one JWKS. They are read when they are old, and where a token names a key that is not among them."""

    def __init__(self, url: str) -> None:
        self._url, self._lock = url, Lock()
        self._keys: dict[str | None, Any] = {}
        self._read_s = self._tried_s = -1e9

    def key(self, key_id: str | None, refresh_ms: int) -> Any:
        """The key, or the only one for a token that names none. Takes as long as the server of the keys. Raises
        InvalidToken."""
        with self._lock:
            now_s = time.monotonic()
            is_old = now_s - self._read_s > refresh_ms / 1000
            if (is_old or self._of(key_id) is None) and now_s - self._tried_s > _RETRY_S:
                self._tried_s = now_s
                self._read(now_s)
            key = self._of(key_id)
        if key is None:
            raise InvalidToken("the token is signed by an unknown key")
        return key

    def _of(self, key_id: str | None) -> Any:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _read(self, now_s: float) -> None:
        from jwt import PyJWKSet, PyJWTError

        try:
            with urllib.request.urlopen(self._url, timeout=_TIMEOUT_S) as response:
                keys = PyJWKSet.from_dict(json.loads(response.read(MAX_KEYS_BYTES)))
        except (OSError, ValueError, PyJWTError, urllib.error.URLError) as error:
            logger.error("the keys of sasl.oauthbearer.jwks.endpoint.url cannot be read: %s", error)
            return
        self._keys, self._read_s = {key.key_id: key for key in keys.keys}, now_s


_keys_by_url: dict[str, SigningKeys] = {}


def validator(config: SecurityConfig, now_ms: Callable[[], int]) -> Callable[[str], TokenClaims]:
    """Of the settings of one listener."""
    return partial(_validated, config, now_ms)


def _validated(config: SecurityConfig, now_ms: Callable[[], int], token: str) -> TokenClaims:
    """Raises InvalidToken."""
    claims, skew_s, now_s = _signed_claims(config, token), config.sasl_oauthbearer_clock_skew_seconds, now_ms() / 1000
    expires_s, not_before_s = _time_s(claims, "exp"), _time_s(claims, "nbf", 0)
    if expires_s + skew_s <= now_s:
        raise InvalidToken("the token has expired")
    if not_before_s - skew_s > now_s:
        raise InvalidToken("the token is not valid yet")
    principal = claims.get(config.sasl_oauthbearer_sub_claim_name)
    if not isinstance(principal, str) or not principal.strip():
        raise InvalidToken(f"the token has no claim {config.sasl_oauthbearer_sub_claim_name}")
    audience = claims.get("aud")
    audiences = {str(each) for each in audience} if isinstance(audience, list) else {audience}
    expected = config.sasl_oauthbearer_expected_audience
    if expected and audiences.isdisjoint(expected):
        raise InvalidToken("the token is for another audience")
    if config.sasl_oauthbearer_expected_issuer not in (None, claims.get("iss")):
        raise InvalidToken("the token is of another issuer")
    return TokenClaims(principal, int(expires_s * 1000))


def _time_s(claims: dict[str, Any], name: str, default: float | None = None) -> float:
    """Raises InvalidToken."""
    value = claims.get(name, default)
    if not isinstance(value, int | float) or not 0 <= value <= _LAST_S:
        raise InvalidToken(f"the token has no time as its {name}")
    return value


def _signed_claims(config: SecurityConfig, token: str) -> dict[str, Any]:
    """What the token claims, as its signature holds; the claims are not checked. Raises InvalidToken."""
    import jwt

    unchecked: Any = {f"verify_{name}": False for name in ("exp", "nbf", "iat", "aud", "iss")}
    try:
        header = jwt.get_unverified_header(token)
        if header.get("alg") == "none" and config.coterie_sasl_oauthbearer_unsecured_enable:
            unchecked["verify_signature"] = False
            return jwt.decode(token, options=unchecked)
        url = config.sasl_oauthbearer_jwks_endpoint_url
        if url is None:
            raise InvalidToken("the token is signed, and there are no keys to check it by")
        keys = _keys_by_url.setdefault(url, SigningKeys(url))
        key = keys.key(header.get("kid"), config.sasl_oauthbearer_jwks_endpoint_refresh_ms)
        return jwt.decode(token, key=key, algorithms=ALGORITHMS, options=unchecked)
    except jwt.PyJWTError as error:
        raise InvalidToken("the token is not signed by one of the keys") from error
