"""The application: all routes, their errors, and the document that describes them (`/docs`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from litestar import Litestar
from litestar.config.cors import CORSConfig
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import SwaggerRenderPlugin
from litestar.openapi.spec import (
    Components,
    OpenAPI,
    OpenAPIMediaType,
    OpenAPIResponse,
    OpenAPIType,
    Reference,
    RequestBody,
    Schema,
    SecurityScheme,
)

from postrich import __version__
from postrich.doors.http import problems
from postrich.doors.http.desk import Desk, provide_caller
from postrich.doors.http.drafts import Drafts, Pages, Signing
from postrich.doors.http.express import Express
from postrich.doors.http.files import FILES, export_posts, import_posts
from postrich.doors.http.gate import Gate
from postrich.doors.http.hooks import Hooks
from postrich.doors.http.jobs import Jobs
from postrich.doors.http.looking import Looking
from postrich.doors.http.posts import Posts
from postrich.doors.http.probes import health, metrics
from postrich.doors.http.series import SeriesRoutes
from postrich.doors.http.slots import Slots
from postrich.errors import PostrichError

if TYPE_CHECKING:
    from litestar.types import ASGIApp

ROUTES: tuple[Any, ...] = (
    *(Posts, import_posts, export_posts, Slots, SeriesRoutes, Drafts, Signing),
    *(Jobs, Hooks, Looking, health, metrics),
)

REFUSALS = {
    400: "What was sent cannot be done as asked; nothing was stored.",
    401: "The request does not show who makes it.",
    403: "Who asks is known, and may not do this.",
    404: "There is no such thing, or it is not the caller's.",
    409: "It contradicts what is kept, or comes too late.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server has another name than the request says.",
    429: "Too many requests, or too many posts that wait: see Retry-After.",
    503: "The store cannot be used now: see Retry-After.",
    507: "The disk is full.",
}

DESCRIPTION = """Durable, scheduled publishing to Nostr. Every call that reads or changes a
pubkey's posts is signed (NIP-98: `Authorization: Nostr …`), or bears the owner's token
(`Authorization: Bearer …`). Errors are `application/problem+json`; a request with an
`Idempotency-Key` may be sent again."""


def build(desk: Desk) -> ASGIApp:
    """The application of one server."""
    pages = Pages(desk)

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        try:
            yield
        finally:
            pages.close()

    settings = desk.settings
    app = Litestar(
        route_handlers=list(ROUTES),
        dependencies={
            "desk": Provide(lambda: desk, sync_to_thread=False, use_cache=True),
            "pages": Provide(lambda: pages, sync_to_thread=False, use_cache=True),
            "caller": Provide(provide_caller),
        },
        exception_handlers={
            PostrichError: problems.on_error,
            HTTPException: problems.on_http,
            RecursionError: problems.on_depth,
            Exception: problems.on_fault,
        },
        lifespan=[lifespan],
        cors_config=_cors(settings.cors),
        openapi_config=_document(),
        request_max_body_size=settings.max_body,
        logging_config=None,
    )
    _document_refusals(app.openapi_schema)
    _document_files(app.openapi_schema)
    return Gate(Express(app, desk), settings, desk.outbox.clock)


def _document_refusals(document: OpenAPI) -> None:
    """Every route may refuse: the document says so, and in which form."""
    problem = Schema(
        type=OpenAPIType.OBJECT,
        properties={
            "title": Schema(type=OpenAPIType.STRING),
            "status": Schema(type=OpenAPIType.INTEGER),
            "detail": Schema(type=OpenAPIType.STRING),
            "code": Schema(type=OpenAPIType.STRING),
            "errors": Schema(type=OpenAPIType.ARRAY, items=Schema(type=OpenAPIType.STRING)),
        },
        required=["title", "status"],
    )
    content = {problems.MEDIA_TYPE: OpenAPIMediaType(schema=problem)}
    for path in (document.paths or {}).values():
        for operation in (path.get, path.post, path.put, path.patch, path.delete):
            if operation is not None:
                refusals = {
                    str(status): OpenAPIResponse(description=text, content=content)
                    for status, text in REFUSALS.items()
                }
                operation.responses = {**(operation.responses or {}), **refusals}
    _document_exceptions(document)


def _document_exceptions(document: OpenAPI) -> None:
    """Where a route says more, or something else, than can be read off its code."""
    scheduled = _answers(document, "/api/schedule", "post")
    scheduled["200"] = _like(scheduled["201"], "It was scheduled before, and still is.")
    healthy = _answers(document, "/health", "get")
    healthy["503"] = _like(healthy["200"], "Nothing is being claimed: see trouble.")
    text = OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING))
    files = OpenAPIResponse(
        description="The posts.", content={"application/x-ndjson": text, "text/csv": text}
    )
    _answers(document, "/api/schedule/export", "get")["200"] = files
    for path in ("/health", "/metrics"):
        operation = (document.paths or {})[path].get
        assert operation is not None
        operation.security = []


def _answers(document: OpenAPI, path: str, method: str) -> dict[str, OpenAPIResponse | Reference]:
    operation = getattr((document.paths or {})[path], method)
    found: dict[str, OpenAPIResponse | Reference] = operation.responses
    return found


def _like(response: OpenAPIResponse | Reference, description: str) -> OpenAPIResponse:
    assert isinstance(response, OpenAPIResponse)
    return OpenAPIResponse(description=description, content=response.content)


def _document_files(document: OpenAPI) -> None:
    """Lines of text are no JSON: which they are, both ways."""
    paths = document.paths or {}
    lines = {
        kind: OpenAPIMediaType(schema=Schema(type=OpenAPIType.STRING)) for kind in FILES.values()
    }
    if (taken := paths["/api/schedule/import"].post) is not None:
        taken.request_body = RequestBody(content=lines, required=True)
    if (given := paths["/api/schedule/export"].get) is not None:
        text = "One post a line."
        whole = OpenAPIResponse(description=text, content=lines)
        given.responses = {**(given.responses or {}), "200": whole}


def _cors(origins: tuple[str, ...]) -> CORSConfig | None:
    """Closed unless the owner names origins."""
    if not origins:
        return None
    headers = ["Authorization", "Content-Type", "Idempotency-Key"]
    return CORSConfig(
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "PATCH", "PUT", "DELETE"],
        allow_headers=headers,
        expose_headers=["Location", "Retry-After"],
    )


def _document() -> OpenAPIConfig:
    schemes: dict[str, SecurityScheme | Reference] = {
        "nostr": SecurityScheme(
            type="http", scheme="Nostr", description="NIP-98: a signed event for this very request"
        ),
        "token": SecurityScheme(
            type="http", scheme="bearer", description="the owner's token, from the home directory"
        ),
    }
    return OpenAPIConfig(
        title="Postrich",
        version=__version__,
        description=DESCRIPTION,
        path="/docs",
        render_plugins=[SwaggerRenderPlugin()],
        components=Components(security_schemes=schemes),
        security=[{"nostr": []}, {"token": []}],
    )
