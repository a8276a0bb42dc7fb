"""Settings that were altered at run time, but for the topics': of brokers, client metrics and groups. Kept in
`altered-configs.json` in the data folder, so that they outlive a restart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import IntEnum

from coterie.log.filesystem import FileSystem

_FILE = "altered-configs.json"


class ResourceType(IntEnum):
    """What has settings, numbered as Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class KeptConfigs:
    """Altered settings by resource. A broker's name is its id, or "" for the default of all brokers."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._kept: dict[ResourceType, dict[str, dict[str, str]]] = {}
        if fs.exists(_FILE):
            kept = json.loads(fs.read_file(_FILE))
            self._kept = {ResourceType[kind]: resources for kind, resources in kept.items()}

    def of(self, kind: ResourceType, name: str) -> dict[str, str]:
        """A copy of the altered settings of that resource."""
        return dict(self._kept.get(kind, {}).get(name, {}))

    def names(self, kind: ResourceType) -> list[str]:
        """The resources of that type that have altered settings."""
        return sorted(self._kept.get(kind, {}))

    def replace(self, kind: ResourceType, name: str, configs: Mapping[str, str]) -> None:
        """All altered settings of one resource, written to disk before they are in force here. Raises OSError."""
        resources = {n: c for n, c in self._kept.get(kind, {}).items() if n != name}
        if configs:
            resources[name] = dict(configs)
        kept = self._kept | {kind: resources}
        text = json.dumps({k.name: r for k, r in kept.items() if r}, indent=1, sort_keys=True)
        self._fs.write_file(_FILE, text.encode())
        self._kept = kept
