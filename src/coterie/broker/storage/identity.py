"""Whose a data folder is, in Kafka's meta.properties: the cluster's id, and in a cluster the broker's; and of which topic the
log of a partition is, in the file `partition.metadata` beside it (KIP-516)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from coterie.broker.settings import SettingError, read_properties
from coterie.log import checked_files
from coterie.log.checked_files import Finding, Report, UnreadableFile, unreported
from coterie.log.filesystem import FileSystem

FILE = "meta.properties"
_REMEDY = "restore it from a backup, or move it away to get a new cluster id"
# version -> the properties that Kafka requires; before 0.10.1 there was no cluster.id
_REQUIRED = {"0": ("broker.id",), "1": ("cluster.id", "node.id")}
_TOPIC_ID_FILE = "partition.metadata"
_ID_BYTES = 16
_TOPIC_ID_REMEDY = "restore it from a backup, or remove it"


class FolderOfAnother(RuntimeError):
    """The data folder belongs to another cluster, or to another broker of the cluster."""


def read_identity(fs: FileSystem) -> dict[str, str]:
    """The file's properties, none where there is no file. Raises UnreadableFile for a file that is not Kafka's."""
    if not fs.exists(FILE):
        return {}
    try:
        kept = read_properties(checked_files.read_lines(fs, FILE, _REMEDY))
    except SettingError as error:
        raise UnreadableFile(FILE, str(error), _REMEDY) from error
    version = kept.get("version", "")
    if version not in _REQUIRED:
        problem = f"its version is {version}, and this broker reads 0 and 1" if version else "it has no version"
        raise UnreadableFile(FILE, problem, _REMEDY)
    for name in _REQUIRED[version]:
        if not kept.get(name) or (name != "cluster.id" and not kept[name].isdecimal()):
            raise UnreadableFile(FILE, f"its {name} is missing or no id", _REMEDY)
    return kept


def identify_alone(
    fs: FileSystem, node_id: int, new_id: Callable[[], str], report: Report = unreported, *, has_given_id: bool = False
) -> str:
    """The cluster id of a broker alone, made at the first start. A broker that was not given its id takes the folder of another
    node over, such as one that Kafka wrote, and reports it. Raises FolderOfAnother, OSError, UnreadableFile."""
    kept = read_identity(fs)
    of_node = kept.get("node.id", kept.get("broker.id"))
    if of_node not in (None, str(node_id)):
        if has_given_id:
            raise FolderOfAnother(
                f"the data folder is of node {of_node}, and node.id is {node_id}; mend node.id, or choose another --data"
            )
        action = f"the broker takes it over; start it with --set node.id={of_node} to keep the id"
        report(Finding(FILE, None, f"it is of node {of_node}, and node.id is {node_id}", action))
    cluster_id = kept.get("cluster.id", "")
    if not cluster_id:
        cluster_id = new_id()
        _write(fs, {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id)})
    return cluster_id


def identify_member(fs: FileSystem, broker_id: int, cluster_id: str) -> None:
    """Checks that the folder is that broker's, and makes it so at the first start, as Kafka 2.6 writes it. Raises
    FolderOfAnother, OSError, UnreadableFile."""
    kept = read_identity(fs)
    of_cluster, of_broker = kept.get("cluster.id"), kept.get("broker.id", kept.get("node.id"))
    if of_cluster not in (None, cluster_id):
        raise FolderOfAnother(
            f"the data folder is of cluster {of_cluster}, and zookeeper.connect leads to cluster {cluster_id}; "
            "mend zookeeper.connect, or choose another --data"
        )
    if of_broker not in (None, str(broker_id)):
        raise FolderOfAnother(
            f"the data folder is of broker {of_broker}, and broker.id is {broker_id}; "
            "mend broker.id, or choose another --data"
        )
    if kept.get("broker.id") is None or of_cluster is None:
        _write(fs, {"version": "0", "cluster.id": cluster_id, "broker.id": str(broker_id)})


def _write(fs: FileSystem, properties: dict[str, str]) -> None:
    text = "".join(f"{name}={value}\n" for name, value in properties.items())
    fs.write_file(FILE, checked_files.to_lines(text))


def read_topic_id(fs: FileSystem, directory: str) -> bytes | None:
    """None where there is no such file. Raises UnreadableFile, OSError."""
    path = f"{directory}/{_TOPIC_ID_FILE}"
    if not fs.exists(path):
        return None
    text = fs.read_file(path).decode(errors="replace")
    lines = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    try:
        topic_id = base64.urlsafe_b64decode(lines.get("topic_id", "").strip() + "==")
    except (binascii.Error, ValueError) as error:
        raise UnreadableFile(path, "its topic id is damaged", _TOPIC_ID_REMEDY) from error
    if len(topic_id) != _ID_BYTES or lines.get("version", "").strip() != "0":
        raise UnreadableFile(path, "it does not hold version 0 and the id of a topic", _TOPIC_ID_REMEDY)
    return topic_id


def write_topic_id(fs: FileSystem, directory: str, topic_id: bytes) -> None:
    """Raises OSError."""
    text = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    fs.write_file(f"{directory}/{_TOPIC_ID_FILE}", f"version: 0\ntopic_id: {text}".encode())
