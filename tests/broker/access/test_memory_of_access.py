"""How much a broker's process grows by what users may have it remember of tokens, quotas and denials: each at its bound, with
the longest names, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux's /proc")]

LONGEST = 32_000  # a name of the protocol may have 32,767 bytes
_MEASURED = """
from pathlib import Path

def resident_mb():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024

{imports}
before = resident_mb()
{filled}
print(resident_mb() - before)
"""
_TOKENS = (
    """
from coterie.authentication.delegation_tokens import DelegationToken, TokenLimits
from coterie.authentication.principal import USER, Principal
from coterie.authentication.mechanisms import credential_of
from coterie.broker.clients.delegation_tokens import MAX_NAMES_LENGTH, MAX_TOKENS, DelegationTokens
from coterie.log.filesystem import MemoryFileSystem
""",
    """
tokens = DelegationTokens(MemoryFileSystem(), TokenLimits(b"secret", 1, 1), lambda: b"")
for number in range(MAX_TOKENS):
    renewer = Principal(USER, f"{number:0{MAX_NAMES_LENGTH - 10}}")
    owner = Principal(USER, f"{number:05}")
    token = DelegationToken(f"{number:022}", owner, owner, (renewer,), 1, 2**60, 2**60 + number)
    tokens.put(token.token_id, token)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        salt = b"%024d" % number
        tokens._logins[token.token_id, mechanism] = credential_of(mechanism, salt, salt, 4096)
""",
)
_RATES = (
    "from coterie.quotas import MOST_REMEMBERED, WINDOW_MS, WINDOWS, Rates",
    f"""
kinds = [Rates() for _ in range(4)]
for number in range(MOST_REMEMBERED):
    client_id = f"{{number:0{LONGEST}}}"
    for window in range(WINDOWS):
        for rates in kinds:
            rates.record(("user", client_id), 1.0, 1e9, window * WINDOW_MS)
""",
)
_DENIALS = (
    """
import logging
logging.getLogger("coterie.broker.clients.acls").setLevel(logging.CRITICAL)
from coterie.authorizer.acls import AclOperation, AclResourceType
from coterie.authorizer.authorizer import Authorizer
from coterie.broker.clients.acls import MAX_REPORTED, Acls, Denial
from coterie.broker.settings import BrokerSettings
from coterie.log.filesystem import MemoryFileSystem
""",
    f"""
acls = Acls(MemoryFileSystem(), BrokerSettings().current, is_alone=True)
for number in range(MAX_REPORTED):
    denied = Denial("User:a", "1.2.3.4", AclOperation.READ, AclResourceType.GROUP, f"{{number:0{LONGEST}}}")
    acls.report(denied, acls.authorizer.decide(*denied), 0)
""",
)


@pytest.mark.parametrize(
    ("imports", "filled", "most_mb"),
    [(*_TOKENS, 40.0), (*_RATES, 95.0), (*_DENIALS, 4.0)],
    ids=["tokens", "rates", "denials"],
)
def test_a_process_grows_by_the_bound_at_most(imports: str, filled: str, most_mb: float) -> None:
    code = _MEASURED.format(imports=imports, filled=filled)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert float(done.stdout) < most_mb
