"""The admin's requests about users with SCRAM credentials (KIP-554), for `coterie users`."""

from __future__ import annotations

import secrets

from coterie.authentication.credentials import MIN_ITERATIONS, ScramMechanism
from coterie.authentication.scram import salted
from coterie.client.admin.admin import Admin
from coterie.client.errors import check
from coterie.wire.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from coterie.wire.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

NUMBERS = {mechanism.sasl_name: mechanism.value for mechanism in ScramMechanism}  # in these requests
SALT_BYTES = 16


class UsersAdmin(Admin):
    """An `Admin` that adds, removes and lists users."""

    async def add_user(self, user: str, mechanism: str, password: str) -> None:
        """The broker receives the salted password alone. Raises KafkaError."""
        salt = secrets.token_bytes(SALT_BYTES)
        derived = salted(mechanism, password, salt, MIN_ITERATIONS)
        upsertion = ScramCredentialUpsertion(user, NUMBERS[mechanism], MIN_ITERATIONS, salt, derived)
        await self._alter(AlterUserScramCredentialsRequest([], [upsertion]))

    async def remove_user(self, user: str, mechanism: str) -> None:
        """Raises KafkaError, RESOURCE_NOT_FOUND for a user without such a credential."""
        await self._alter(AlterUserScramCredentialsRequest([ScramCredentialDeletion(user, NUMBERS[mechanism])], []))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        response: AlterUserScramCredentialsResponse = await self._cluster.request_controller(
            request, lambda responded: responded.results
        )
        for result in response.results:
            check(result.error_code, result.error_message)

    async def users(self) -> dict[str, dict[str, int]]:
        """The iterations by mechanism of each user. Raises KafkaError."""
        response: DescribeUserScramCredentialsResponse = await self._cluster.request_controller(
            DescribeUserScramCredentialsRequest(None), lambda responded: [responded]
        )
        check(response.error_code, response.error_message)
        names = {number: name for name, number in NUMBERS.items()}
        return {
            result.user: {names[info.mechanism]: info.iterations for info in result.credential_infos}
            for result in sorted(response.results, key=lambda result: result.user)
        }
