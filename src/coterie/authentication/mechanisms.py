"""The mechanisms of SASL that broker, client and proxy know, in the order in which they are named to users."""

from __future__ import annotations

from coterie.authentication.credentials import HASHES

TOKENS = {"PLAIN": 1, **dict.fromkeys(HASHES, 2), "OAUTHBEARER": 1}  # of a client, until it is authenticated
MECHANISMS = tuple(TOKENS)
