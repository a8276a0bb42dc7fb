"""The ACLs of a broker with an authorizer: kept in `acls.json`, or read from ZooKeeper in a cluster.

There is one only where authorizer.class.name is set. A denial has a line in the log, the same one once a minute, and all
of a principal have `MAX_LINES` a minute: a client that tries names cannot fill the log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from coterie.authorizer.acls import Acl, AclOperation, AclResourceType, PatternType, Permission
from coterie.authorizer.authorizer import Authorizer, Ruling
from coterie.broker.settings.tables.broker_table import BrokerConfig
from coterie.log import checked_files
from coterie.log.checked_files import UnreadableFile
from coterie.log.filesystem import FileSystem

logger = logging.getLogger(__name__)

FILE = "acls.json"
_REMEDY = "restore it from a backup, or move it away to go on without ACLs, which denies all but super users"
REPORT_AGAIN_MS = 60_000
MAX_LINES = 100  # of a principal in a minute
MAX_REPORTED = 10_000  # denials, and principals, that are remembered


class Denial(NamedTuple):
    """What was denied, and to whom."""

    principal: str
    host: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str


class Acls:
    """``authorizer`` decides by those in force. A change is on disk when `alter` returns. ``is_alone``: the broker keeps them;
    in a cluster, all but super users are denied everything until `replace` has brought them."""

    def __init__(self, fs: FileSystem, config: BrokerConfig, *, is_alone: bool) -> None:
        self._fs = fs
        self._allows_without_acl = config.allow_everyone_if_no_acl_found
        acls = read_acls(fs) if is_alone else []
        allows = self._allows_without_acl and is_alone
        self.authorizer = Authorizer(acls, _super_users(config.super_users), allows_without_acl=allows)
        self._reported_ms: dict[int, int] = {}  # by the hash of what was denied: a name may have 32,767 bytes
        self._lines: dict[int, int] = {}  # in this minute, by the hash of the principal
        self._minute_ms = 0  # when it began

    def replace(self, acls: Iterable[Acl]) -> None:
        """Puts the ACLs of a cluster in the stead of those before; nothing is written."""
        self.authorizer = Authorizer(acls, self.authorizer.super_users, allows_without_acl=self._allows_without_acl)

    def alter(self, added: Iterable[Acl] = (), removed: Collection[Acl] = ()) -> None:
        """Raises OSError, and then nothing has changed."""
        after = self.authorizer.with_acls({*self.authorizer.acls, *added} - set(removed))
        if after.acls != self.authorizer.acls:
            self._fs.write_file(FILE, checked_files.to_json([_row(acl) for acl in after.acls]))
            self.authorizer = after

    def report(self, denied: Denial, ruling: Ruling, now_ms: int) -> None:
        """A line about a denial; none where there was the same one within a minute, or `MAX_LINES` of its principal."""
        key = hash((denied.principal, denied.operation, denied.resource_type, denied.name))
        if now_ms - self._reported_ms.get(key, now_ms - REPORT_AGAIN_MS) < REPORT_AGAIN_MS:
            return
        if now_ms - self._minute_ms >= REPORT_AGAIN_MS or len(self._lines) >= MAX_REPORTED:
            self._minute_ms, self._lines = now_ms, {}
        principal = hash(denied.principal)
        lines = self._lines.get(principal, 0)
        if lines > MAX_LINES:
            return
        self._lines[principal] = lines + 1
        if lines == MAX_LINES:
            text = "%s has %d lines about denials in a minute; further ones have none"
            logger.warning(text, denied.principal, MAX_LINES)
            return
        if len(self._reported_ms) >= MAX_REPORTED:
            self._reported_ms.clear()
        self._reported_ms[key] = now_ms
        kind, operation = denied.resource_type.name.lower(), denied.operation.name
        text = "%s from %s is denied %s on %s %s: %s"
        logger.warning(text, denied.principal, denied.host, operation, kind, denied.name, ruling.rule)


def _super_users(text: str) -> list[str]:
    """Of Kafka's list, which has semicolons because a name may have commas."""
    return [user.strip() for user in text.split(";") if user.strip()]


def _row(acl: Acl) -> dict[str, str]:
    return {key: value if isinstance(value, str) else value.name for key, value in acl._asdict().items()}


def _of_row(row: Mapping[str, Any]) -> Acl:
    """Raises KeyError."""
    return Acl(
        AclResourceType[row["resource_type"]],
        row["name"],
        PatternType[row["pattern_type"]],
        row["principal"],
        row["host"],
        AclOperation[row["operation"]],
        Permission[row["permission"]],
    )


def read_acls(fs: FileSystem) -> list[Acl]:
    """Of a broker alone. Raises UnreadableFile."""
    if not fs.exists(FILE):
        return []
    try:
        return [_of_row(row) for row in checked_files.read_json(fs, FILE, _REMEDY)]
    except (KeyError, TypeError) as error:
        raise UnreadableFile(FILE, "it does not hold ACLs", _REMEDY) from error
