"""What each client reports of a login, by an error of its own: Apache Kafka's tool of a version, librdkafka and aiokafka."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from coterie_conformance.servers.kafka import jars

TIMEOUT_S = 60.0
Settings = Mapping[str, str]
Attempt = Callable[[Settings], str]  # connects and lists topics; returns the client's own error, "" for none
_MODULES = {"PLAIN": "plain.PlainLoginModule", "OAUTHBEARER": "oauthbearer.OAuthBearerLoginModule"}


def java(version: str, folder: Path) -> Attempt:
    """Kafka's own kafka-topics of that version."""
    classpath = f"{jars(version)}/*"

    def attempt(settings: Settings) -> str:
        mechanism = settings["sasl.mechanism"]
        module = _MODULES.get(mechanism, "scram.ScramLoginModule")
        options = f'username="{settings["sasl.username"]}" password="{settings["sasl.password"]}"'
        given = {
            "security.protocol": settings["security.protocol"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": settings["ssl.truststore.location"],
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required {options};",
            "default.api.timeout.ms": "15000",
            "request.timeout.ms": "10000",
        }
        file = folder / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        command = ["java", "-cp", classpath, "org.apache.kafka.tools.TopicCommand", "--list"]
        command += ["--bootstrap-server", settings["bootstrap.servers"], "--command-config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode == 0:
            return ""
        output = done.stdout + done.stderr
        names = ("SaslAuthenticationException", "SslAuthenticationException", "UnsupportedSaslMechanismException")
        return next((name for name in names if name in output), output.strip().splitlines()[-1])

    return attempt


def librdkafka(settings: Settings) -> str:
    """confluent-kafka's admin client."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[str] = []
    failed = threading.Event()

    def noted(error: object) -> None:
        errors.append(str(error.name()))  # type: ignore[attr-defined]
        failed.set()

    own = {name: value for name, value in settings.items() if not name.startswith("ssl.truststore")}
    config = own | {
        "ssl.ca.location": settings["ssl.truststore.location"],
        "reconnect.backoff.ms": "1000",  # else its lines in the log hide those of the next client
        "error_cb": noted,
        "logger": logging.getLogger("librdkafka"),
    }
    admin = AdminClient(config)
    try:
        admin.list_topics(timeout=5)
    except KafkaException as error:
        admin.poll(0)
        return next((name for name in errors if name in ("_AUTHENTICATION", "_SSL")), str(error.args[0].name()))
    return ""


def aiokafka(settings: Settings) -> str:
    """aiokafka's admin client, whose error for any failed login is that it cannot bootstrap."""
    from aiokafka.admin import AIOKafkaAdminClient

    async def go() -> str:
        client = AIOKafkaAdminClient(
            bootstrap_servers=settings["bootstrap.servers"],
            security_protocol=settings["security.protocol"],
            ssl_context=ssl.create_default_context(cafile=settings["ssl.truststore.location"]),
            sasl_mechanism=settings["sasl.mechanism"],
            sasl_plain_username=settings["sasl.username"],
            sasl_plain_password=settings["sasl.password"],
        )
        try:
            await client.start()
            await client.list_topics()
        except Exception as error:
            return type(error).__name__
        finally:
            with contextlib.suppress(Exception):
                await client.close()
        return ""

    return asyncio.run(go())
