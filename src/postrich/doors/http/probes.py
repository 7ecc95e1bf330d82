"""`/health` and `/metrics`: for monitors. They tell figures, never posts."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import MediaType, Request, Response, get

from postrich.config import HttpSettings
from postrich.doors.http.desk import AtDesk
from postrich.errors import Forbidden


class Health(msgspec.Struct, frozen=True):
    """`trouble`: why nothing is claimed now."""

    status: str
    trouble: list[str]


@get("/health", summary="Whether the engine works", tags=["probes"], security=[])
async def health(desk: AtDesk) -> Response[Health]:
    trouble = desk.outbox.troubles()
    status = "failing" if trouble else "ok"
    return Response(Health(status, trouble), status_code=503 if trouble else 200)


@get(
    "/metrics",
    summary="Figures for Prometheus",
    tags=["probes"],
    security=[],
    media_type=MediaType.TEXT,
)
async def metrics(request: Request[Any, Any, Any], desk: AtDesk) -> Response[bytes]:
    """For who is on this machine, and for the owner and admins from elsewhere."""
    near = _is_near(request, desk.settings)
    if not near and not (await desk.identify(request)).is_admin:
        raise Forbidden("metrics are for this machine, the owner and admins")
    kind, body = desk.outbox.meters.render(await desk.outbox.measure())
    return Response(body, headers={"Content-Type": kind})


def _is_near(request: Request[Any, Any, Any], settings: HttpSettings) -> bool:
    """Behind a proxy that is not known as one, everybody seems to be on this machine."""
    if settings.is_hosted and not settings.trusted_proxies:
        return False
    client = request.client
    return client is not None and client.host in ("127.0.0.1", "::1", "localhost")
