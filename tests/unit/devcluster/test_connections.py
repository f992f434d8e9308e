"""A closed session leaves no socket behind, whatever its requests were doing."""

import asyncio
import contextlib
import ssl

import aiohttp
import pytest
from aiohttp import web

from kraftquorum_devcluster.connections import TlsConnector
from kraftquorum_devcluster.pki import create_pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    return create_pki(tmp_path_factory.mktemp("pki"), ["127.0.0.1"])


@contextlib.asynccontextmanager
async def watched(pki):
    """A TLS server whose one answer begins and never ends."""

    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.sleep(60)
        return response

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pki.server.certificate, pki.server.key)
    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


async def test_a_watch_that_was_given_up_leaves_no_open_socket(pki):
    async with watched(pki) as url:
        connector = TlsConnector(pki.ca.certificate)
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get(url) as answer:
                assert await answer.content.readline() == b"one\n"
                opened = answer.connection.transport.get_extra_info("socket")
            assert opened.fileno() >= 0, "closed at once: this test shows nothing"
        assert opened.fileno() == -1
