"""What each client reports of a login and of what it is denied, by an error of its own: Apache Kafka's tools of a version,
librdkafka, aiokafka, kafkajs, franz-go, sarama and Spark's own connector, one session of its Spark."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from coterie_conformance.clients.programs import PROGRAMS, environment
from coterie_conformance.servers.kafka import jars
from coterie_conformance.servers.programs import FRANZ_GO, go_program
from coterie_conformance.spark.run import connector_jars, peer_python

HERE = Path(__file__).parent
TIMEOUT_S = 60.0
Settings = Mapping[str, str]
# Connects and makes the ``call`` of the settings: "list" of the topics, or what ACLs may deny; returns the client's own error,
# "" for none.
Attempt = Callable[[Settings], str]
JAVA_ERRORS = (
    "SaslAuthenticationException",
    "SslAuthenticationException",
    "UnsupportedSaslMechanismException",
    "TopicAuthorizationException",
    "GroupAuthorizationException",
    "TransactionalIdAuthorizationException",
)
_PERFORMANCE = (
    *("org.apache.kafka.tools.ProducerPerformance", "--num-records", "1", "--throughput", "-1", "--record-size", "10"),
    *("--producer.config", "FILE"),
)
_JAVA_CALLS: dict[str, tuple[str, ...]] = {
    "list": ("org.apache.kafka.tools.TopicCommand", "--list", "--command-config", "FILE"),
    "topic": (*_PERFORMANCE, "--topic", "denied"),
    "group": (
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", "words", "--group", "denied"),
        *("--consumer.config", "FILE", "--timeout-ms", "15000"),
    ),
    "transaction": (
        *_PERFORMANCE,
        "--topic",
        "words",
        "--transactional-id",
        "denied",
        "--transaction-duration-ms",
        "1000",
    ),
}
_MODULES = "org.apache.kafka.common.security"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
BEARER = "OAUTHBEARER"
# Its callback handler of Java's clients since 3.8, and of those before.
BEARER_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
OLDER_BEARER_HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
END_S = 30.0


def _login_of(settings: Settings, folder: Path) -> dict[str, str]:
    """As Java's clients have it."""
    mechanism = settings["sasl.mechanism"]
    if mechanism == BEARER:
        file = _token_file(settings, folder)
        file.write_text(settings["sasl.token"])
        return {
            "sasl.mechanism": mechanism,
            # A JVM logs in once for each such text, however often the file changes.
            "sasl.jaas.config": f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required file="{file.name}";',
            "sasl.login.callback.handler.class": settings.get("bearer.handler", BEARER_HANDLER),
            "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        }
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    options = f'username="{settings["sasl.username"]}" password="{settings["sasl.password"]}"'
    options += ' tokenauth="true"' * ("is.token" in settings)
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{_MODULES}.{module} required {options};"}


def _token_file(settings: Settings, folder: Path) -> Path:
    return folder / f"{hashlib.sha256(settings.get('sasl.token', '').encode()).hexdigest()[:12]}.jwt"


def java_properties(settings: Settings, folder: Path) -> dict[str, str]:
    """The settings as Java's clients have them; a bearer's token is in a file of the folder."""
    given = {
        "security.protocol": settings["security.protocol"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": settings["ssl.truststore.location"],
        "default.api.timeout.ms": "30000",
        "request.timeout.ms": "20000",
    }
    if settings["security.protocol"] == "SASL_SSL":
        given |= _login_of(settings, folder)
    if key_store := settings.get("ssl.keystore.location"):
        given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": key_store}
    return given


def write_properties(settings: Settings, folder: Path) -> Path:
    """The file of settings of Java's clients."""
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in java_properties(settings, folder).items()))
    return file


def java(version: str, folder: Path) -> Attempt:
    """Kafka's own kafka-topics of that version."""
    classpath = f"{jars(version)}/*"

    def attempt(settings: Settings) -> str:
        file = write_properties(settings, folder)
        token = f"-D{_ALLOWED_URLS}={_token_file(settings, folder).as_uri()}"
        command = ["java", token, "-cp", classpath, *_JAVA_CALLS[settings["call"]]]
        bootstrap = "--bootstrap-server", settings["bootstrap.servers"]
        if settings["call"] in ("topic", "transaction"):
            file.write_text(f"{file.read_text()}bootstrap.servers={bootstrap[1]}\n")
        else:
            command += bootstrap
        words = [word.replace("FILE", str(file)) for word in command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        output = done.stdout + done.stderr
        known = next((name for name in JAVA_ERRORS if name in output), "")
        return known if known or done.returncode == 0 else output.strip().splitlines()[-1]

    return attempt


def kafkajs() -> Attempt:
    """Raises CannotRun."""
    (program,) = (program for program in PROGRAMS if program.name == "kafkajs")
    modules = environment(program)[-1]
    return _program(["node", str(HERE / "login.js"), modules])


def franz_go() -> Attempt:
    """Raises CannotRun."""
    modules = [
        f"github.com/twmb/franz-go/pkg/{package}@{FRANZ_GO}"
        for package in ("kgo", "sasl/oauth", "sasl/plain", "sasl/scram")
    ]
    return _program([str(go_program(HERE / "franz_go.go", *modules))])


def sarama() -> Attempt:
    """Raises CannotRun."""
    (program,) = (program for program in PROGRAMS if program.name == "sarama")
    return _program([str(go_program(HERE / "sarama.go", *program.packages, "github.com/xdg-go/scram@v1.1.2"))])


def _program(command: list[str]) -> Attempt:
    """It reads the settings as JSON and prints its error."""

    def attempt(settings: Settings) -> str:
        done = subprocess.run(
            command, input=json.dumps(dict(settings)), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        return done.stdout.strip() or ("" if done.returncode == 0 else f"ended with {done.returncode}: {done.stderr}")

    return attempt


def librdkafka(settings: Settings) -> str:
    """confluent-kafka's admin client."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors: list[str] = []

    def noted(error: object) -> None:
        errors.append(str(error.name()))  # type: ignore[attr-defined]

    of_others = ("ssl.truststore.location", "ssl.keystore.location", "call", "sasl.token")
    has_sasl = settings["security.protocol"] == "SASL_SSL"
    own: dict[str, Any] = {
        name: value
        for name, value in settings.items()
        if name not in of_others and (has_sasl or not name.startswith("sasl."))
    }
    if key_store := settings.get("ssl.keystore.location"):
        own |= {"ssl.certificate.location": key_store, "ssl.key.location": key_store}
    if token := settings.get("sasl.token"):
        own["oauth_cb"] = lambda _: (token, time.time() + 3600)  # it sends none whose end is past
    config = own | {
        "ssl.ca.location": settings["ssl.truststore.location"],
        "reconnect.backoff.ms": "1000",  # else its lines in the log hide those of the next client
        "error_cb": noted,
        "logger": logging.getLogger("librdkafka"),
    }
    admin = AdminClient(config)
    try:
        if settings["call"] == "list":
            _list_topics(admin, errors)
        else:
            _denied_to_librdkafka(settings["call"], config)
    except KafkaException as error:
        admin.poll(0)
        return next((name for name in errors if name in ("_AUTHENTICATION", "_SSL")), str(error.args[0].name()))
    return ""


def _list_topics(admin: Any, errors: Sequence[str]) -> None:
    """Within 5 s, at whose end a call of librdkafka fails, however early its connections did. Raises KafkaException."""
    from confluent_kafka import KafkaException

    for left in reversed(range(10)):
        try:
            admin.list_topics(timeout=0.5)
        except KafkaException:
            admin.poll(0)
            if errors or not left:
                raise
        else:
            return


def _denied_to_librdkafka(call: str, config: dict[str, Any]) -> None:
    """Raises KafkaException."""
    from confluent_kafka import Consumer, KafkaException, Producer

    if call == "group":
        Producer(config).list_topics("words", timeout=5)  # which creates it
        consumer = Consumer(config | {"group.id": "denied"})
        consumer.subscribe(["words"])
        try:
            ends_s = time.monotonic() + TIMEOUT_S
            while time.monotonic() < ends_s:
                message = consumer.poll(1.0)
                error = None if message is None else message.error()
                if error is not None and error.name() != "UNKNOWN_TOPIC_OR_PART":  # the topic is being created
                    raise KafkaException(error)
        finally:
            consumer.close()
    elif call == "topic":
        producer = Producer(config)
        failures: list[Any] = []
        producer.produce("denied", b"one", on_delivery=lambda error, _: failures.append(error))
        producer.flush(TIMEOUT_S)
        if failures and failures[0] is not None:
            raise KafkaException(failures[0])
    else:
        Producer(config | {"transactional.id": "denied"}).init_transactions(TIMEOUT_S)


def aiokafka(settings: Settings) -> str:
    """aiokafka's admin client, whose error for any failed login is that it cannot bootstrap."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider
    from aiokafka.admin import AIOKafkaAdminClient

    context = ssl.create_default_context(cafile=settings["ssl.truststore.location"])
    if key_store := settings.get("ssl.keystore.location"):
        context.load_cert_chain(key_store)
    own: dict[str, Any] = {
        "bootstrap_servers": settings["bootstrap.servers"],
        "security_protocol": settings["security.protocol"],
        "ssl_context": context,
    }
    if settings["security.protocol"] == "SASL_SSL":
        own |= {
            "sasl_mechanism": settings["sasl.mechanism"],
            "sasl_plain_username": settings["sasl.username"],
            "sasl_plain_password": settings["sasl.password"],
        }
    if settings["sasl.mechanism"] == BEARER:

        class Provider(AbstractTokenProvider):  # type: ignore[misc]
            async def token(self) -> str:
                return settings["sasl.token"]

        own["sasl_oauth_token_provider"] = Provider()

    async def go() -> str:
        client: Any
        match settings["call"]:
            case "list":
                client = AIOKafkaAdminClient(**own)
                call = client.list_topics
            case "group":
                client = AIOKafkaConsumer("words", group_id="denied", **own)
                call = client.getone
            case "topic":
                client = AIOKafkaProducer(**own)
                call = partial(client.send_and_wait, "denied", b"one")
            case _:
                client = AIOKafkaProducer(transactional_id="denied", **own)
                call = client.begin_transaction
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await client.start()
                await call()
        except Exception as error:
            return type(error).__name__
        finally:
            with contextlib.suppress(Exception):
                await (client.close() if settings["call"] == "list" else client.stop())
        return ""

    return asyncio.run(go())


@contextmanager
def spark_connector(folder: Path) -> Iterator[Attempt]:
    """It has no transactions. Raises CannotRun."""
    python, jars = peer_python(), connector_jars()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(python), str(Path(__file__).with_name("spark_login.py")), jars]
    with (
        open(folder / "spark.log", "w") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        requests, responses = process.stdin, process.stdout

        def attempt(settings: Settings) -> str:
            properties = java_properties({**settings, "bearer.handler": OLDER_BEARER_HANDLER}, folder)
            options = {f"kafka.{name}": value for name, value in properties.items()}
            options["kafka.bootstrap.servers"] = settings["bootstrap.servers"]
            if settings["call"] == "group":
                options["kafka.group.id"] = "denied"
            print(json.dumps({"call": settings["call"], "options": options}), file=requests, flush=True)
            error: str = json.loads(responses.readline() or '"Spark has ended"')
            return next((name for name in JAVA_ERRORS if name in error), error)

        try:
            yield attempt
        finally:
            requests.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
