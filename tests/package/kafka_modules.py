"""How the Kafka modules of testcontainers start an image: taken from the modules themselves, of the versions named here.

The orders of listeners are those of each language's sets, and the variables are all that a module sets.
"""

from __future__ import annotations

from dataclasses import dataclass

JAVA, GO, NODE, PYTHON = "Java 2.0.5", "Go 0.42.0", "Node 12.2.0", "Python 4.15.0"
CONFLUENT, APACHE, NATIVE = "confluentinc/cp-kafka", "apache/kafka", "apache/kafka-native"
RUNNING = r".*Transitioning from RECOVERY to RUNNING.*"
STARTED = r".*\[KafkaServer id=\d+\] started.*"


@dataclass(frozen=True, slots=True)
class ModuleStart:
    """One way in which a module starts an image."""

    name: str
    """The module, its class, and its mode."""
    image: str
    """The image that it is made for, whose place ours takes."""
    environment: dict[str, str]
    lines: str
    """The script that it copies into the running container; {hostname} is the container's."""
    advertised: str
    """What the script sets as KAFKA_ADVERTISED_LISTENERS; {mapped} is the port of the host for `port`."""
    port: int
    ready: str = ""
    """A pattern of the line that it waits for; else it waits for `ports`, from outside and within."""
    ports: tuple[int, ...] = ()
    path: str = "/tmp/testcontainers_start.sh"
    command: str = "while [ ! -f {path} ]; do sleep 0.1; done; {path}"

    def script(self, hostname: str, mapped: int) -> str:
        """What the module writes to `path`."""
        return self.lines.replace("{advertised}", self.advertised.format(hostname=hostname, mapped=mapped))


EVERY_MODULE = {
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "BROKER",
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "9223372036854775807",
    "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
}
TRANSACTIONS = {"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1", "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1"}
KRAFT = {
    "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "KAFKA_PROCESS_ROLES": "broker,controller",
    "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
    "KAFKA_NODE_ID": "1",
}
SKIP_CHECKS = "echo '' > /etc/confluent/docker/ensure \n"
ZOOKEEPER = """\
echo 'clientPort=2181' > {folder}zookeeper.properties
echo 'dataDir=/var/lib/zookeeper/data' >> {folder}zookeeper.properties
echo 'dataLogDir=/var/lib/zookeeper/log' >> {folder}zookeeper.properties
zookeeper-server-start {folder}zookeeper.properties &
"""
NO_ZOOKEEPER = "sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' /etc/confluent/docker/configure\n"
FORMAT = (
    "echo 'kafka-storage format --ignore-formatted -t {id} -c /etc/kafka/kafka.properties'"
    " >> /etc/confluent/docker/configure\n"
)
EXPORT = "export KAFKA_ADVERTISED_LISTENERS={advertised}\n"
CONFLUENT_RUN = "/etc/confluent/docker/run \n"

_JAVA = (
    EVERY_MODULE
    | TRANSACTIONS
    | KRAFT
    | {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094,BROKER://0.0.0.0:9093"}
)
_JAVA_ADVERTISED = "PLAINTEXT://localhost:{mapped},BROKER://{hostname}:9093"
_JAVA_OLD = (
    EVERY_MODULE
    | TRANSACTIONS
    | {
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
        "KAFKA_BROKER_ID": "1",
    }
)
_JAVA_OLD_ADVERTISED = "PLAINTEXT://localhost:{mapped},BROKER://{hostname}:9092"
_GO_LISTENERS = "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094"
_NODE = EVERY_MODULE | {
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
    "KAFKA_ADVERTISED_LISTENERS": "BROKER://localhost:9092",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
    "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE": "false",
}
_NODE_KRAFT = (
    _NODE | KRAFT | {"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094"}
)
_NODE_ADVERTISED = "BROKER://{hostname}:9092,PLAINTEXT://localhost:{mapped}"
_NODE_COMMAND = "echo 'Waiting for script...'; while [ ! -f {path} ]; do sleep 0.1; done; {path}"
_PYTHON = EVERY_MODULE | {
    "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092",
    "KAFKA_BROKER_ID": "1",
    "KAFKA_LOG_FLUSH_INTERVAL_MESSAGES": "10000000",
}
_PYTHON_ADVERTISED = "PLAINTEXT://localhost:{mapped},BROKER://$(hostname -i):9092"
_PYTHON_LINES = (
    EXPORT + ". /etc/confluent/docker/bash-config\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch"
)
_PYTHON_COMMAND, _PYTHON_PATH = "while [ ! -f {path} ]; do sleep 0.1; done; sh {path}", "/tc-start.sh"
_PYTHON_ID = "MkU3OEVBNTcwNTJENDM2Qk"

MODULE_STARTS = (
    ModuleStart(
        f"{JAVA}: org.testcontainers.kafka.KafkaContainer",
        APACHE,
        _JAVA,
        "#!/bin/bash\n" + EXPORT + "/etc/kafka/docker/run \n",
        _JAVA_ADVERTISED,
        9092,
        RUNNING,
    ),
    ModuleStart(
        f"{JAVA}: org.testcontainers.kafka.KafkaContainer, native",
        NATIVE,
        _JAVA,
        "#!/bin/bash\n" + EXPORT + "/etc/kafka/docker/run \n",
        _JAVA_ADVERTISED,
        9092,
        RUNNING,
    ),
    ModuleStart(
        f"{JAVA}: ConfluentKafkaContainer",
        CONFLUENT,
        _JAVA,
        "#!/bin/bash\n" + EXPORT + CONFLUENT_RUN,
        _JAVA_ADVERTISED,
        9092,
        RUNNING,
    ),
    ModuleStart(
        f"{JAVA}: org.testcontainers.containers.KafkaContainer",
        CONFLUENT,
        _JAVA_OLD | {"KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},
        "#!/bin/bash\n" + EXPORT + SKIP_CHECKS + ZOOKEEPER.format(folder="/tmp/") + CONFLUENT_RUN,
        _JAVA_OLD_ADVERTISED,
        9093,
        STARTED,
    ),
    ModuleStart(
        f"{JAVA}: org.testcontainers.containers.KafkaContainer, KRaft",
        CONFLUENT,
        _JAVA_OLD
        | KRAFT
        | {"KAFKA_LISTENERS": "CONTROLLER://0.0.0.0:9094,PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092"},
        "#!/bin/bash\n" + EXPORT + NO_ZOOKEEPER + FORMAT.format(id='"4L6g3nShT-eMCtK--X86sw"') + CONFLUENT_RUN,
        _JAVA_OLD_ADVERTISED,
        9093,
        RUNNING,
    ),
    ModuleStart(
        f"{GO}: Run",
        CONFLUENT,
        {name: value for name, value in (EVERY_MODULE | TRANSACTIONS | KRAFT).items() if name != "CLUSTER_ID"}
        | {"KAFKA_LISTENERS": _GO_LISTENERS, "KAFKA_REST_BOOTSTRAP_SERVERS": _GO_LISTENERS, "KAFKA_BROKER_ID": "1"},
        "#!/bin/bash\nsource /etc/confluent/docker/bash-config\n"
        + EXPORT
        + "echo Starting Kafka KRaft mode\n"
        + NO_ZOOKEEPER
        + FORMAT.format(id='"$(kafka-storage random-uuid)"')
        + "echo '' > /etc/confluent/docker/ensure\n/etc/confluent/docker/configure\n/etc/confluent/docker/launch",
        "PLAINTEXT://localhost:{mapped},BROKER://{hostname}:9092",
        9093,
        RUNNING,
        path="/usr/sbin/testcontainers_start.sh",
        command="while [ ! -f {path} ]; do sleep 0.1; done; bash {path}",
    ),
    ModuleStart(
        f"{NODE}: KafkaContainer",
        CONFLUENT,
        _NODE | {"KAFKA_ZOOKEEPER_CONNECT": "localhost:2181"},
        "#!/bin/bash\n" + EXPORT + SKIP_CHECKS + ZOOKEEPER.format(folder="") + CONFLUENT_RUN,
        _NODE_ADVERTISED,
        9093,
        ports=(9093, 2181),
        command=_NODE_COMMAND,
    ),
    ModuleStart(
        f"{NODE}: KafkaContainer, KRaft, a tag below 7.4",
        CONFLUENT,
        _NODE_KRAFT,
        "#!/bin/bash\n"
        + EXPORT
        + SKIP_CHECKS
        + NO_ZOOKEEPER
        + FORMAT.format(id='"4L6g3nShT-eMCtK--X86sw"')
        + CONFLUENT_RUN,
        _NODE_ADVERTISED,
        9093,
        ports=(9093,),
        command=_NODE_COMMAND,
    ),
    ModuleStart(
        f"{NODE}: KafkaContainer, KRaft",
        CONFLUENT,
        _NODE_KRAFT,
        "#!/bin/bash\n" + EXPORT + CONFLUENT_RUN,
        _NODE_ADVERTISED,
        9093,
        ports=(9093,),
        command=_NODE_COMMAND,
    ),
    ModuleStart(
        f"{PYTHON}: KafkaContainer",
        CONFLUENT,
        _PYTHON,
        "#!/bin/bash\n"
        + ZOOKEEPER.format(folder="")
        + "export KAFKA_ZOOKEEPER_CONNECT='localhost:2181'\n"
        + _PYTHON_LINES,
        _PYTHON_ADVERTISED,
        9093,
        STARTED,
        path=_PYTHON_PATH,
        command=_PYTHON_COMMAND,
    ),
    ModuleStart(
        f"{PYTHON}: KafkaContainer, KRaft",
        CONFLUENT,
        _PYTHON
        | KRAFT
        | {
            "CLUSTER_ID": _PYTHON_ID,
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9093,BROKER://0.0.0.0:9092,CONTROLLER://0.0.0.0:9094",
        },
        "#!/bin/bash\n" + NO_ZOOKEEPER + FORMAT.format(id=_PYTHON_ID) + _PYTHON_LINES,
        _PYTHON_ADVERTISED,
        9093,
        r".*Kafka Server started.*",
        path=_PYTHON_PATH,
        command=_PYTHON_COMMAND,
    ),
)
