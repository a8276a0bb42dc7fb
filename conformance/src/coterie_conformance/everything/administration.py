"""Moves of random stories about what an administrator keeps in a cluster: quotas, credentials, settings of groups and of
client metrics. Each entity is the story's own."""

from __future__ import annotations

from coterie.certify.question import Step, Value

_SETTING = "resources.configs"


def _altered(kind: int, resource: str, name: str, value: Value, operation: int = 0) -> Step:
    parts: dict[str, Value] = {"resources.resource_type": kind, "resources.resource_name": resource}
    changed = {f"{_SETTING}.name": name, f"{_SETTING}.value": value, f"{_SETTING}.config_operation": operation}
    return "IncrementalAlterConfigs", parts | changed


def _described(kind: int, resource: str, keys: list[str] | None) -> Step:
    parts = {"resource_type": kind, "resource_name": resource, "configuration_keys": keys}
    return "DescribeConfigs", {f"resources.{name}": value for name, value in parts.items()} | {"include_synonyms": True}


def _quota(user: str, key: str, value: float, **more: Value) -> Step:
    entity = [{"entity_type": "user", "entity_name": user}]
    if "client" in more:
        entity.append({"entity_type": "client-id", "entity_name": more["client"]})
    op = {"key": key, "value": value, "remove": more.get("remove", False)}
    return "AlterClientQuotas", {"entries": [{"entity": entity, "ops": [op]}]}


def _quotas(user: str, *, strict: bool) -> Step:
    return "DescribeClientQuotas", {"components.match": user, "strict": strict}


def _credential(user: str, mechanism: int, iterations: int) -> Step:
    parts = {"name": user, "mechanism": mechanism, "iterations": iterations}
    return "AlterUserScramCredentials", {f"upsertions.{name}": value for name, value in parts.items()}


def _without_credential(user: str, mechanism: int) -> Step:
    deletions = [{"name": user, "mechanism": mechanism}]
    return "AlterUserScramCredentials", {"upsertions": [], "deletions": deletions}


_GROUP, _METRICS = 32, 16
_CREDENTIALS: Step = ("DescribeUserScramCredentials", {"users.name": "$s{n}"})
ADMINISTRATION_MOVES: dict[str, tuple[float, list[Step]]] = {
    "quotas": (
        2,
        [
            _quota("$q{n}", "producer_byte_rate", 1024.0),
            _quota("$q{n}", "consumer_byte_rate", 2048.0, client="$c"),
            _quota("$q{n}", "request_percentage", 12.5),
            _quotas("$q{n}", strict=False),
            _quotas("$q{n}", strict=True),
            _quota("$q{n}", "producer_byte_rate", 0.0, remove=True),
            _quotas("$q{n}", strict=False),
            _quota("$q{n}", "request_percentage", 0.0, remove=True),
            _quota("$q{n}", "request_percentage", 0.0, remove=True),
            _quotas("$q{n}", strict=True),
        ],
    ),
    "credentials": (
        2,
        [
            _credential("$s{n}", 1, 4096),
            _CREDENTIALS,
            _credential("$s{n}", 2, 8192),
            _credential("$s{n}", 1, 16384),
            _CREDENTIALS,
            _without_credential("$s{n}", 1),
            _CREDENTIALS,
            _without_credential("$s{n}", 1),
            _without_credential("$s{n}", 2),
            _CREDENTIALS,
        ],
    ),
    "settings of a group": (
        1,
        [
            _altered(_GROUP, "$g{n}", "consumer.session.timeout.ms", "50000"),
            _described(_GROUP, "$g{n}", ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"]),
            ("ListConfigResources", {"resource_types": [_GROUP]}),
            ("AlterConfigs", {"resources.resource_type": _GROUP, "resources.resource_name": "$g{n}", "resources.configs": []}),
            _described(_GROUP, "$g{n}", None),
            ("ListConfigResources", {"resource_types": [_GROUP]}),
        ],
    ),
    "settings of metrics": (
        1,
        [
            _altered(_METRICS, "$m{n}", "metrics", "org.apache.kafka.producer."),
            _altered(_METRICS, "$m{n}", "match", "client_id=$c"),
            _altered(_METRICS, "$m{n}", "metrics", "org.apache.kafka.consumer.", 2),
            _described(_METRICS, "$m{n}", None),
            ("ListConfigResources", {}),
            _altered(_METRICS, "$m{n}", "metrics", None, 1),
            _altered(_METRICS, "$m{n}", "match", None, 1),
            _described(_METRICS, "$m{n}", ["interval.ms", "metrics"]),
            ("ListConfigResources", {}),
        ],
    ),
}  # fmt: skip
