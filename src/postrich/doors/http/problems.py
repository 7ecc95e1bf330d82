"""Errors as `application/problem+json` (RFC 9457): a title by its kind, a sentence of detail.

Promises: every error of ours has its status here; what is not ours is a 500 without a detail, and
goes to the log in full. No detail holds a secret.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from postrich.errors import (
    CallerError,
    Conflict,
    Forbidden,
    IllegalMove,
    NotAuthorised,
    PostrichError,
    QuotaExceeded,
    SignerError,
    StoreBusy,
    StoreError,
    StoreFull,
    TooLate,
    TooOften,
    UnknownGrid,
    UnknownHook,
    UnknownJob,
    UnknownSeries,
)
from postrich.rules.redact import redact

log = logging.getLogger("postrich.http")

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong. `errors`: the fields at fault, where there are several things to say."""

    title: str
    status: int
    detail: str = ""
    code: str = ""
    errors: list[str] = []


#: The first that fits counts: from the particular to the general.
_STATUSES: tuple[tuple[type[PostrichError], int, str], ...] = (
    (NotAuthorised, 401, "not-authorised"),
    (Forbidden, 403, "forbidden"),
    (UnknownJob, 404, "not-found"),
    (UnknownHook, 404, "not-found"),
    (UnknownSeries, 404, "not-found"),
    (UnknownGrid, 404, "not-found"),
    (TooLate, 409, "too-late"),
    (Conflict, 409, "conflict"),
    (IllegalMove, 409, "illegal-move"),
    (QuotaExceeded, 429, "quota-exceeded"),
    (TooOften, 429, "too-often"),
    (CallerError, 400, "bad-request"),
    (SignerError, 409, "signer"),
    (StoreFull, 507, "store-full"),
    (StoreBusy, 503, "store-busy"),
    (StoreError, 503, "store-unavailable"),
    (PostrichError, 400, "bad-request"),
)


def problem_of(error: PostrichError) -> Problem:
    """What a refusal or fault of ours means over HTTP."""
    status, code = next((s, c) for kind, s, c in _STATUSES if isinstance(error, kind))
    detail = redact(str(error))
    if isinstance(error, StoreError):  # where the store is concerns its owner only
        log.error("the store: %s", detail)
        detail = "the store cannot be used now; nothing is lost: try again"
    return Problem(HTTPStatus(status).phrase, status, detail, code)


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> Response[Problem]:
    return Response(
        problem, status_code=problem.status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def on_error(_: Request[Any, Any, Any], error: PostrichError) -> Response[Problem]:
    return answer(problem_of(error), headers_of(error))


def headers_of(error: PostrichError) -> dict[str, str]:
    """What goes with a refusal."""
    headers = {}
    if isinstance(error, QuotaExceeded | TooOften):
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    elif isinstance(error, NotAuthorised):
        headers["WWW-Authenticate"] = 'Nostr, Bearer realm="postrich"'
    elif isinstance(error, StoreError):
        headers["Retry-After"] = "5"
    return headers


def on_http(_: Request[Any, Any, Any], error: HTTPException) -> Response[Problem]:
    """What the framework refuses: unknown paths and methods, bodies that are not what they say."""
    status = error.status_code
    title = HTTPStatus(status).phrase if status in _KNOWN else "Error"
    if isinstance(error, ValidationException):
        return answer(Problem(title, status, *_invalid(error)))
    code = _CODES.get(status, "invalid")
    return answer(Problem(title, status, redact(error.detail), code), error.headers)


_CODES = {404: "not-found", 405: "no-such-method", 413: "too-large", 429: "too-often"}
_KNOWN = {status.value for status in HTTPStatus}


def _invalid(error: ValidationException) -> tuple[str, str, list[str]]:
    extra = error.extra if isinstance(error.extra, list) else []
    errors = [_sentence(one) for one in extra if isinstance(one, dict)]
    missing = [text for text in errors if "missing required" in text]
    if missing:
        return f"Missing required fields: {missing[0]}", "missing-fields", errors
    return (errors[0] if errors else redact(error.detail)), "invalid", errors


def _sentence(extra: dict[str, Any]) -> str:
    where = extra.get("key")
    text = redact(str(extra.get("message", "")))
    return f"{where}: {text}" if where and where != "data" else text


def on_depth(_: Request[Any, Any, Any], __: RecursionError) -> Response[Problem]:
    """JSON that is nested beyond all reason."""
    return answer(Problem("Bad Request", 400, "the body is nested too deeply", "invalid"))


def on_fault(request: Request[Any, Any, Any], error: Exception) -> Response[Problem]:
    """A bug: the log has it in full, the caller only learns that it is ours."""
    log.error("%s %s: unexpected fault", request.method, request.url.path, exc_info=error)
    return answer(Problem("Internal Server Error", 500, "this is our fault; the log says more"))
