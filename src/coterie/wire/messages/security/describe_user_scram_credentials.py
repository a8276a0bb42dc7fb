"""DescribeUserScramCredentials (key 50, KIP-554): mechanisms and iterations of users, never their secrets."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, field, int8, int16, int32, message, string, struct


@struct
class UserName(Struct):
    name: str = field(string)


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    users: list[UserName] | None = field(array(UserName), nullable="0+")


@struct
class CredentialInfo(Struct):
    mechanism: int = field(int8)
    iterations: int = field(int32)


@struct
class DescribeUserScramCredentialsResult(Struct):
    user: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    credential_infos: list[CredentialInfo] = field(array(CredentialInfo))


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    results: list[DescribeUserScramCredentialsResult] = field(array(DescribeUserScramCredentialsResult))
