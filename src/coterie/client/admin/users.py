"""An admin's calls about users with SCRAM credentials (KIP-554)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from coterie.authentication.sasl import ScramMechanism
from coterie.client import arguments
from coterie.client.admin.calls import repeated, reported
from coterie.client.admin.cluster_types import UserScramCredentialDeletion, UserScramCredentialUpsertion
from coterie.client.connection.cluster import Cluster
from coterie.client.errors import KafkaError, check
from coterie.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from coterie.wire.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

NUMBERS: Mapping[str, int] = {mechanism.sasl_name: mechanism.value for mechanism in ScramMechanism}  # in these requests
SALT_BYTES = 16


class ScramCalls:
    """Of `Admin`."""

    _cluster: Cluster

    @repeated
    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, *, errors: dict[str, KafkaError] | None = None
    ) -> dict[str, dict[str, int]]:
        """The iterations by mechanism of each user, or of ``users``. No salts, no keys. Raises KafkaError RESOURCE_NOT_FOUND
        of the first of ``users`` without a credential, and then ``errors`` receives each of these;
        CLUSTER_AUTHORIZATION_FAILED.

        >>> await admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", "SCRAM-SHA-256", "secret")])
        >>> await admin.describe_user_scram_credentials()
        {'alice': {'SCRAM-SHA-256': 4096}}
        """
        wanted = None if users is None else [UserName(name) for name in arguments.names(users, "users")]
        response: DescribeUserScramCredentialsResponse = await self._cluster.request_controller(
            DescribeUserScramCredentialsRequest(wanted), lambda responded: [responded]
        )
        check(response.error_code, response.error_message)
        names = {number: name for name, number in NUMBERS.items()}
        results = {result.user: result for result in sorted(response.results, key=lambda result: result.user)}
        return {
            user: {names[info.mechanism]: info.iterations for info in results[user].credential_infos}
            for user in reported(results, errors, _user)
        }

    @repeated
    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion],
        *,
        errors: dict[str, KafkaError] | None = None,
    ) -> None:
        """Adds, changes and removes credentials of users. The broker receives salted passwords alone. Raises the KafkaError
        of the first user with one, and then the others are altered: RESOURCE_NOT_FOUND for a credential that is not there,
        DUPLICATE_RESOURCE for a user's mechanism named twice, UNACCEPTABLE_CREDENTIAL, CLUSTER_AUTHORIZATION_FAILED. With
        ``errors`` each of these users is put there with the error.

        >>> await admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", "SCRAM-SHA-512", "secret")])
        >>> await admin.alter_user_scram_credentials([UserScramCredentialDeletion("bob", "SCRAM-SHA-512")])
        """
        deletions, upsertions = [], []
        for alteration in alterations:
            if isinstance(alteration, UserScramCredentialDeletion):
                deletions.append(ScramCredentialDeletion(alteration.user, _number(alteration.mechanism)))
            elif isinstance(alteration, UserScramCredentialUpsertion):
                upsertions.append(_upsertion(alteration))
            else:
                raise TypeError(f"an alteration is an upsertion or a deletion of a credential, not {alteration!r}")
        response: AlterUserScramCredentialsResponse = await self._cluster.request_controller(
            AlterUserScramCredentialsRequest(deletions, upsertions), lambda responded: responded.results
        )
        reported({result.user: result for result in response.results}, errors, _user)


def _user(name: str) -> str:
    return f"user {name}"


def _number(mechanism: str) -> int:
    """Raises ValueError."""
    if mechanism not in NUMBERS:
        raise ValueError(f"mechanism must be {' or '.join(NUMBERS)}, not {mechanism!r}")
    return NUMBERS[mechanism]


def _upsertion(alteration: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    """Raises TypeError, ValueError."""
    import secrets  # with the digests of OpenSSL, as `scram`: no cost of those who alter no user

    from coterie.authentication.mechanisms import salted

    mechanism, password = alteration.mechanism, arguments.text(alteration.password, "password")
    number, iterations = _number(mechanism), arguments.whole_number(alteration.iterations, "iterations", 1, 2**31 - 1)
    salt = secrets.token_bytes(SALT_BYTES) if alteration.salt is None else alteration.salt
    return ScramCredentialUpsertion(
        arguments.text(alteration.user, "user"), number, iterations, salt, salted(mechanism, password, salt, iterations)
    )
