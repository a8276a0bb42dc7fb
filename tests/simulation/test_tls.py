"""TLS in virtual time: OpenSSL's over the simulated network, certificates by the world's clock, equal traces of equal seeds."""

from __future__ import annotations

import asyncio
import datetime
import ssl

import pytest
import trustme

from coterie.simulation import Simulation
from coterie.simulation.escapes import EPOCH_S

PORT, DAY_S = 7000, 86_400
BEGINNING = datetime.datetime.fromtimestamp(EPOCH_S, datetime.UTC)


class Certificates:
    """An authority, and contexts of a server whose certificate is valid from one day of the world to another."""

    def __init__(self) -> None:
        self.authority = trustme.CA()

    def of_server(self, first_day: float = -1, last_day: float = 1) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._issued("server", first_day, last_day).configure_cert(context)
        return context

    def of_client(self, last_day: float | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if last_day is not None:
            self._issued("client", -1, last_day).configure_cert(context)
        return context

    def _issued(self, name: str, first_day: float, last_day: float) -> trustme.LeafCert:
        first, last = (BEGINNING + datetime.timedelta(days) for days in (first_day, last_day))
        return self.authority.issue_cert(name, not_before=first, not_after=last)


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return Certificates()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1_000_000):
        writer.write(data)
        await writer.drain()
    writer.close()


def serve(world: Simulation, context: ssl.SSLContext) -> None:
    async def listen() -> None:
        await asyncio.start_server(echo, "server", PORT, ssl=context)

    world.run_in(world.process("server"), listen())


async def echoed(context: ssl.SSLContext, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("server", PORT, ssl=context)
    try:
        writer.write(data)
        return await reader.readexactly(len(data))
    finally:
        writer.close()


def test_bytes_pass_within_tls(certificates: Certificates) -> None:
    with Simulation(1) as world:
        serve(world, certificates.of_server())
        data = bytes(range(256)) * 4_000
        assert world.run(echoed(certificates.of_client(), data)) == data


@pytest.mark.parametrize(
    ("first_day", "last_day", "why"), [(-2, -1, "certificate has expired"), (1, 2, "certificate is not yet valid")]
)
def test_a_certificate_is_valid_by_the_worlds_clock(
    certificates: Certificates, first_day: float, last_day: float, why: str
) -> None:
    with Simulation(1) as world:
        serve(world, certificates.of_server(first_day, last_day))
        with pytest.raises(ssl.SSLCertVerificationError, match=why) as error:
            world.run(echoed(certificates.of_client(), b"x"))
        assert error.value.verify_message == why


def test_a_certificate_expires_with_the_passing_of_days(certificates: Certificates) -> None:
    with Simulation(1) as world:
        context = certificates.of_client()
        serve(world, certificates.of_server())
        assert world.run(echoed(context, b"x")) == b"x"
        world.advance(1.1 * DAY_S)
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            world.run(echoed(context, b"x"))


def test_each_side_goes_by_the_clock_of_its_machine(certificates: Certificates) -> None:
    with Simulation(1) as world:
        serve(world, certificates.of_server())
        world.jump_clock("server", 2 * DAY_S)  # it does not look at its own certificate
        assert world.run(echoed(certificates.of_client(), b"x")) == b"x"
        client = world.process("client")
        client.jump_clock(2 * DAY_S)
        with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
            world.run_in(client, echoed(certificates.of_client(), b"x"))


def test_a_server_refuses_a_client_whose_certificate_has_expired(certificates: Certificates) -> None:
    with Simulation(1) as world:
        context = certificates.of_server()
        context.verify_mode = ssl.CERT_REQUIRED
        certificates.authority.configure_trust(context)
        serve(world, context)
        assert world.run(echoed(certificates.of_client(last_day=1), b"x")) == b"x"
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            world.run(echoed(certificates.of_client(last_day=-0.5), b"x"))


def test_a_certificate_of_an_unknown_authority_is_refused(certificates: Certificates) -> None:
    with Simulation(1) as world:
        serve(world, Certificates().of_server())
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
            world.run(echoed(certificates.of_client(), b"x"))


def test_the_real_clock_counts_again_after_the_world(certificates: Certificates) -> None:
    """A certificate of the world's beginning has expired by now: without a world OpenSSL says so."""
    context = certificates.of_client()
    with Simulation(1) as world:
        serve(world, certificates.of_server())
        assert world.run(echoed(context, b"x")) == b"x"
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(theirs, ours, server_hostname="server")
    server = certificates.of_server().wrap_bio(ours, theirs, server_side=True)
    for side in (client, server):
        with pytest.raises(ssl.SSLWantReadError):
            side.do_handshake()
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        client.do_handshake()


def test_a_seed_has_one_trace_whatever_openssls_randomness() -> None:
    """With other certificates, keys and nonces in each run, and writes that arrive in two pieces."""

    def trace(seed: int) -> str:
        certificates = Certificates()
        with Simulation(seed) as world:
            world.network.faults.split, world.network.faults.loss = 0.5, 0.05
            serve(world, certificates.of_server())
            for _ in range(5):
                world.run(echoed(certificates.of_client(), world.rng.randbytes(30_000)))
            world.advance(1)
            return f"{world.now_s} {world.trace}"

    traces = {seed: {trace(seed) for _ in range(4)} for seed in (1, 2)}
    assert [len(of_seed) for of_seed in traces.values()] == [1, 1]
    assert traces[1] != traces[2]
