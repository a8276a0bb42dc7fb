"""The mechanisms of SASL that broker, client and proxy know, in the order in which they are named to users."""

from __future__ import annotations

TOKENS = {
    "PLAIN": 1,
    "SCRAM-SHA-256": 2,
    "SCRAM-SHA-512": 2,
    "OAUTHBEARER": 1,
}  # of a client, until it is authenticated
MECHANISMS = tuple(TOKENS)
