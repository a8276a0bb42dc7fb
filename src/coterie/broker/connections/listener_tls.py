"""TLS of one listener: its context, made of the settings and of the files that they name, again when these change."""

from __future__ import annotations

import logging
import os
import ssl

from coterie.broker.settings import BrokerSettings
from coterie.broker.settings.listeners import Listener
from coterie.broker.settings.tables.security_table import SecurityConfig
from coterie.configuration import SettingError
from coterie.runtime.tls_stores import KeyStore, StoreError, TrustStore

logger = logging.getLogger(__name__)

_VERIFY = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_Stamp = tuple[object, ...]


class ListenerTls:
    """A connection takes the `context` of the moment at which its handshake begins. Files that cannot be used leave the context
    as it was, with an error in the log."""

    def __init__(self, settings: BrokerSettings, listener: Listener) -> None:
        """Raises SettingError for settings and files without which the listener cannot be served."""
        self._settings, self._listener = settings, listener
        config = settings.security(listener.name)
        self._stamp = _stamp(config)
        self._context = _context(config, listener)

    def context(self) -> ssl.SSLContext:
        """For one connection."""
        config = self._settings.security(self._listener.name)
        stamp = _stamp(config)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = _context(config, self._listener)
            except SettingError as error:
                logger.error("the listener %s keeps its certificates: %s", self._listener.name, error)
            else:
                logger.info("the listener %s has other certificates", self._listener.name)
        return self._context

    @property
    def mapping_rules(self) -> str:
        """ssl.principal.mapping.rules."""
        return self._settings.security(self._listener.name).ssl_principal_mapping_rules


def _stamp(config: SecurityConfig) -> _Stamp:
    return config, _version(config.ssl_keystore_location), _version(config.ssl_truststore_location)


def _version(location: str | None) -> tuple[int, ...] | None:
    if location is None:
        return None
    try:
        status = os.stat(location)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _context(config: SecurityConfig, listener: Listener) -> ssl.SSLContext:
    """Raises SettingError."""
    keys, trust = key_store(config), trust_store(config)
    prefix = f"listener.name.{listener.name.lower()}."
    if not keys:
        raise SettingError(
            f"the listener {listener.name} ({listener.security_protocol}) needs {prefix}ssl.keystore.location, a PEM or "
            "PKCS12 file with the broker's certificates and key"
        )
    if config.ssl_client_auth != "none" and not trust:
        raise SettingError(
            f"ssl.client.auth={config.ssl_client_auth} needs {prefix}ssl.truststore.location, a PEM or PKCS12 file with the "
            "authorities of clients' certificates"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    versions = [_VERSIONS[name] for name in config.ssl_enabled_protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.verify_mode = _VERIFY[config.ssl_client_auth]
    try:
        keys.load(context)
        if trust:
            trust.load(context)
    except StoreError as error:
        raise SettingError(f"the listener {listener.name}: {error}") from error
    return context


def key_store(config: SecurityConfig) -> KeyStore:
    """Where the broker's certificates and key are."""
    return KeyStore(
        config.ssl_keystore_location,
        config.ssl_keystore_password,
        config.ssl_key_password,
        config.ssl_keystore_certificate_chain,
        config.ssl_keystore_key,
    )


def trust_store(config: SecurityConfig) -> TrustStore:
    """Where the authorities of other certificates are."""
    return TrustStore(
        config.ssl_truststore_location, config.ssl_truststore_password, config.ssl_truststore_certificates
    )
