"""The settings of listeners with TLS and SASL, with Kafka's names; ``listener.name.X.`` before one sets it for that listener.

Facts: `BrokerSecurityConfigs`, `SslConfigs` and `SaslConfigs` of Kafka 4.3. Secrets are settings of the type PASSWORD, whose
values no response and no log line shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from coterie.authentication.principal import BadRules, parse_rules
from coterie.authentication.sasl import MECHANISMS
from coterie.broker.settings.setting import BrokerSetting, Update, row
from coterie.configuration import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Rule,
    ValueType,
    at_least,
    one_of,
    settings_of,
)

T = TypeVar("T")

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_OF_LISTENER = re.compile(
    rf"listener\.name\.(?P<listener>[^.]+)\.(?:(?P<mechanism>{'|'.join(MECHANISMS).lower()})\.)?(?P<setting>.+)"
)


def _are_rules(value: object) -> bool:
    try:
        parse_rules(str(value))
    except BadRules:
        return False
    return True


_MAPPING_RULES = Rule("DEFAULT, or RULE:PATTERN/REPLACEMENT/ with L or U behind it, several with commas", _are_rules)


def _security(
    value_type: ValueType[T],
    default: T,
    documentation: str,
    rule: Rule | None = None,
    *,
    update: Update = Update.PER_BROKER,
) -> T:
    return row(value_type, default, documentation, rule, update)


@dataclass(frozen=True, slots=True)
class SecurityConfig:
    """The values of one listener."""

    ssl_keystore_type: str = _security(
        STRING, "JKS", "PEM or PKCS12; what the file is counts more. A JKS file has to be converted to PKCS12."
    )
    ssl_keystore_location: str | None = _security(
        STRING, None, "The file with the broker's certificates and key. It is read again when it changes."
    )
    ssl_keystore_password: str | None = _security(PASSWORD, None, "The password of a PKCS12 file.")
    ssl_keystore_certificate_chain: str | None = _security(
        PASSWORD, None, "The broker's certificates in PEM, in place of a file."
    )
    ssl_keystore_key: str | None = _security(PASSWORD, None, "The broker's key in PEM, in place of a file.")
    ssl_key_password: str | None = _security(PASSWORD, None, "The password of the broker's key.")
    ssl_truststore_type: str = _security(STRING, "JKS", "As ssl.keystore.type, of the trust store.")
    ssl_truststore_location: str | None = _security(
        STRING, None, "The file with the authorities of clients' certificates. It is read again when it changes."
    )
    ssl_truststore_password: str | None = _security(PASSWORD, None, "The password of a PKCS12 trust store.")
    ssl_truststore_certificates: str | None = _security(
        PASSWORD, None, "The authorities of clients' certificates in PEM, in place of a file."
    )
    ssl_client_auth: str = _security(
        STRING, "none", "Whether clients need a certificate.", one_of("required", "requested", "none")
    )
    ssl_enabled_protocols: tuple[str, ...] = _security(
        LIST, ("TLSv1.2", "TLSv1.3"), "The versions of TLS that are accepted.", one_of("TLSv1.2", "TLSv1.3")
    )
    ssl_principal_mapping_rules: str = _security(
        STRING,
        "DEFAULT",
        "How the distinguished name of a client's certificate becomes the name of its principal.",
        _MAPPING_RULES,
        update=Update.READ_ONLY,
    )
    ssl_endpoint_identification_algorithm: str = _security(
        STRING, "https", "Whether the name of a broker is looked for in its certificate; empty: it is not."
    )
    sasl_mechanism_inter_broker_protocol: str = _security(
        STRING,
        "GSSAPI",
        "The mechanism by which the broker logs in to the others, with username and password of sasl.jaas.config.",
    )
    sasl_enabled_mechanisms: tuple[str, ...] = _security(
        LIST, ("GSSAPI",), f"The mechanisms of SASL that are offered: {', '.join(MECHANISMS)}. GSSAPI is not served."
    )
    sasl_jaas_config: str | None = _security(
        PASSWORD,
        None,
        'The users of PLAIN: PlainLoginModule with user_NAME="PASSWORD" for each; of one listener: '
        "listener.name.X.plain.sasl.jaas.config.",
    )
    coterie_sasl_users_file: str | None = _security(
        STRING,
        None,
        "A file of users for PLAIN and SCRAM, as `coterie users add --file` writes it: salted, readable by its owner alone.",
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = _security(
        STRING, None, "The keys that sign tokens (JWKS), an https or file URL.", update=Update.READ_ONLY
    )
    coterie_sasl_oauthbearer_allowed_urls: tuple[str, ...] = _security(
        LIST,
        (),
        "The URLs that sasl.oauthbearer.jwks.endpoint.url may have; Kafka has a system property for it.",
        update=Update.READ_ONLY,
    )
    coterie_sasl_oauthbearer_unsecured_enable: bool = _security(
        BOOLEAN, False, "Whether tokens without a signature are accepted; for tests alone.", update=Update.READ_ONLY
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = _security(
        LONG, 3_600_000, "How often these keys are read again.", update=Update.READ_ONLY
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = _security(
        LIST, None, "The audiences of which a token must name one.", update=Update.READ_ONLY
    )
    sasl_oauthbearer_expected_issuer: str | None = _security(
        STRING, None, "The issuer that a token must name.", update=Update.READ_ONLY
    )
    sasl_oauthbearer_clock_skew_seconds: int = _security(
        INT, 30, "How far the clocks of issuers may differ from the broker's.", update=Update.READ_ONLY
    )
    sasl_oauthbearer_sub_claim_name: str = _security(
        STRING, "sub", "The claim with the principal's name.", update=Update.READ_ONLY
    )
    sasl_server_max_receive_size: int = _security(
        INT, 524_288, "The largest request before authentication.", update=Update.READ_ONLY
    )
    connections_max_reauth_ms: int = _security(
        LONG,
        0,
        "How long a login lasts, unless the client logs in again (KIP-368); a token's own end counts too. 0: no end.",
        update=Update.READ_ONLY,
    )
    connection_failed_authentication_delay_ms: int = _security(
        INT, 100, "How long a failed login waits for its response.", at_least(0), update=Update.READ_ONLY
    )
    coterie_connections_max_unauthenticated_ms: int = _security(
        INT,
        30_000,
        "How long a connection may take for the handshake of TLS and its first login; then it is closed.",
        at_least(1),
        update=Update.READ_ONLY,
    )


SECURITY_SETTINGS: dict[str, BrokerSetting[object]] = settings_of(SecurityConfig, BrokerSetting)


def unprefixed(name: str) -> str:
    """The name of a setting without ``listener.name.X.`` or ``listener.name.X.MECHANISM.`` before it."""
    of_listener = _OF_LISTENER.fullmatch(name)
    return name if of_listener is None else of_listener["setting"]


def listener_setting(name: str) -> BrokerSetting[object] | None:
    """The setting of TLS and SASL that such a prefix precedes; None for any other name."""
    setting = unprefixed(name)
    return None if setting == name else SECURITY_SETTINGS.get(setting)


def prefixes(listener: str, mechanism: str | None = None) -> list[str]:
    """What may precede a setting of a listener, and of one of its mechanisms, from the least to the most specific."""
    of_listener = f"listener.name.{listener.lower()}."
    return ["", of_listener] + ([] if mechanism is None else [f"{of_listener}{mechanism.lower()}."])
