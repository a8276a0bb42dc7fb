"""Certificates for brokers on this machine, made by trustme (extra `testing`): an authority of their own, and no other's."""

from __future__ import annotations

import os
from pathlib import Path

from coterie.runtime.extras import require

AUTHORITY, KEYS = "ca.pem", "broker.pem"


def make_certificates(folder: Path, purpose: str) -> None:
    """Writes the authority's certificate, which clients trust, and the broker's with its key, which only the owner can read.
    Raises ExtraMissing, whose sentence begins with the ``purpose``."""
    require("testing", purpose)
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / AUTHORITY)
    keys = authority.issue_cert("localhost", "127.0.0.1", "::1").private_key_and_cert_chain_pem
    write_secret(folder / KEYS, keys.bytes())


def write_secret(path: Path, data: bytes) -> None:
    """As a whole, readable by its owner alone from the first byte on. Raises OSError."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(new, path)
