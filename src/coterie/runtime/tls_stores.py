"""Certificates and keys for TLS: PEM files and texts (KIP-651), and PKCS12 files, which the extra `tls` reads."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from coterie.runtime.extras import require

_JKS = b"\xfe\xed\xfe\xed"
_PEM = b"-----BEGIN"


class StoreError(ValueError):
    """A store that cannot be used; one sentence, without secrets."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """One side's certificates and key: of a file, or as texts of PEM. ``name``: what precedes the settings' names."""

    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.location or (self.certificates and self.key))

    def load(self, context: ssl.SSLContext) -> None:
        """Raises StoreError."""
        if self.certificates and self.key:
            _load_pem(context, f"{self.key}\n{self.certificates}", self.key_password, "ssl.keystore.key")
        elif self.location:
            data = _read(self.location, "ssl.keystore.location")
            if _PEM in data:
                _load_pem(context, data.decode("utf-8", "replace"), self.key_password, self.location)
            else:
                _load_pem(context, _pem_of(data, self.location, self.password).identity, None, self.location)


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The authorities of the other side's certificates: of a file, or a text of PEM."""

    location: str | None = None
    password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return bool(self.location or self.certificates)

    def load(self, context: ssl.SSLContext) -> None:
        """Raises StoreError."""
        source = self.location or "ssl.truststore.certificates"
        text = self.certificates
        if text is None and self.location:
            data = _read(self.location, "ssl.truststore.location")
            text = (
                data.decode("utf-8", "replace")
                if _PEM in data
                else _pem_of(data, self.location, self.password).authorities
            )
        try:
            context.load_verify_locations(cadata=text)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise StoreError(f"the certificates of {source} cannot be used: {_reason(error)}") from error


@dataclass(frozen=True, slots=True)
class _Pem:
    identity: str = field(repr=False)  # the key and its certificates; empty without a key
    authorities: str


def _read(location: str, setting: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise StoreError(f"{setting} cannot be read: {location}: {error.strerror}") from error


def _pem_of(data: bytes, location: str, password: str | None) -> _Pem:
    """A PKCS12 file in PEM. Raises StoreError, ExtraMissing."""
    if data.startswith(_JKS):
        raise StoreError(
            f"{location} is a JKS file; make a PKCS12 file of it: keytool -importkeystore -srckeystore {location} "
            f"-destkeystore {location}.p12 -deststoretype PKCS12"
        )
    require("tls", f"the PKCS12 file {location}")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        text = f"{location} is neither PEM nor PKCS12, or its password is another one"
        raise StoreError(text) from error
    own = [] if store.cert is None else [store.cert.certificate]
    others = [one.certificate for one in store.additional_certs]
    certificates = [one.public_bytes(Encoding.PEM).decode() for one in (*own, *others)]
    if store.key is None:
        return _Pem("", "".join(certificates))
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return _Pem(key + "".join(certificates), "".join(certificates))


def _load_pem(context: ssl.SSLContext, text: str, password: str | None, source: str) -> None:
    if "PRIVATE KEY" not in text:
        raise StoreError(f"{source} has no private key")
    with _as_file(text) as path:
        try:
            # A password for a key without one is ignored; without it OpenSSL would prompt on the terminal.
            context.load_cert_chain(path, password=lambda: password or "")
        except (OSError, ssl.SSLError, ValueError) as error:
            raise StoreError(f"the key and certificates of {source} cannot be used: {_reason(error)}") from error


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A path by which OpenSSL can read the text: in memory alone where the system can."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("coterie-tls")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp()  # readable by the owner alone
    try:
        with open(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        with suppress(OSError):
            os.unlink(path)


def _reason(error: Exception) -> str:
    """OpenSSL's words without its codes."""
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error) or "it cannot be read"
