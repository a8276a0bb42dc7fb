"""AlterUserScramCredentials (key 51, KIP-554)."""

from __future__ import annotations

from coterie.wire.declaration import Message, Struct, array, bytes_, field, int8, int16, int32, message, string, struct


@struct
class ScramCredentialDeletion(Struct):
    name: str = field(string)
    mechanism: int = field(int8)


@struct
class ScramCredentialUpsertion(Struct):
    name: str = field(string)
    mechanism: int = field(int8)
    iterations: int = field(int32)
    salt: bytes = field(bytes_)
    salted_password: bytes = field(bytes_)


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion] = field(array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(array(ScramCredentialUpsertion))


@struct
class AlterUserScramCredentialsResult(Struct):
    user: str = field(string)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int = field(int32)
    results: list[AlterUserScramCredentialsResult] = field(array(AlterUserScramCredentialsResult))
