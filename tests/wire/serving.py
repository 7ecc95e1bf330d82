"""A web server where a relay is thought to be."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from tests.relays.process import free_port


@asynccontextmanager
async def serving(handler: object) -> AsyncIterator[str]:
    """Serve every path by one handler; yields the relay URL."""
    app = web.Application()
    app.router.add_get("/{tail:.*}", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"ws://127.0.0.1:{port}/"
    finally:
        await runner.cleanup()
