"""A process whose asyncio was imported without `ssl`, as a broker's, connects by TLS all the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from coterie.cli import _import_asyncio_without_ssl
_import_asyncio_without_ssl()
import asyncio
assert asyncio.sslproto.ssl is None
from coterie.runtime import asyncio_tls
asyncio_tls.enable()
import ssl, trustme

async def main():
    authority, ours, theirs = trustme.CA(), ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(ours)
    authority.issue_cert("127.0.0.1").configure_cert(theirs)
    served = asyncio.Event()

    async def serve(reader, writer):
        writer.write(await reader.readline())
        writer.close()
        served.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=theirs)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=ours)
    writer.write(b"over TLS\\n")
    print((await reader.read()).decode(), end="")
    writer.close()
    await served.wait()

asyncio.run(main())
"""


@pytest.mark.slow
def test_tls_after_all() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("over TLS\n", "")
