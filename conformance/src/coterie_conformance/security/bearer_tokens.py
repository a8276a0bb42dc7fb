"""Tokens of OAUTHBEARER for the clients of the part: signed by the key of a JWKS, by another key, or expired."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key

KEY_ID, KEY_BITS = "the-key", 2048
LIFETIME_S = 3600


class BearerTokens:
    """Each token is of alice. ``settings``: the broker's, by which it checks them."""

    def __init__(self, folder: Path) -> None:
        self._key, self._other = (generate_private_key(65_537, KEY_BITS) for _ in range(2))
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        keys = folder / "jwks.json"
        keys.write_text(json.dumps({"keys": [public | {"kid": KEY_ID, "alg": "RS256", "use": "sig"}]}))
        self.settings = {
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "coterie.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        }

    def valid(self) -> str:
        """By the key of the JWKS."""
        return self._token(self._key, LIFETIME_S)

    def of_another_key(self) -> str:
        """It names the key of the JWKS."""
        return self._token(self._other, LIFETIME_S)

    def expired(self) -> str:
        """By the key of the JWKS; its end is further back than clocks may differ."""
        return self._token(self._key, -LIFETIME_S)

    def _token(self, key: RSAPrivateKey, lifetime_s: int) -> str:
        end_s = int(time.time()) + lifetime_s
        claims = {"sub": "alice", "iat": end_s - 2 * LIFETIME_S, "exp": end_s}
        return jwt.encode(claims, key, "RS256", {"kid": KEY_ID})
