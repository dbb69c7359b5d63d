# SPDX-License-Identifier: Apache-2.0
"""The dashboard's page: files built by `make build`, the same for every client."""

import os
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).resolve().parents[2] / "dashboard"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
SAFE = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
ALWAYS_ASK = {"Cache-Control": "no-cache"}
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
"""For files that have a hash of their content in their names."""


class _Files(StaticFiles):
    """Static files with extra headers; a file that the client has is answered with 304 by ETag."""

    def __init__(self, folder: Path, headers: dict[str, str]) -> None:
        super().__init__(directory=folder, check_dir=False)
        self._headers = headers

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        """Return the response of the base class with the headers added."""
        found = super().file_response(full_path, stat_result, scope, status_code)
        found.headers.update(self._headers)
        return found


def add_page(app: FastAPI, folder: Path = FOLDER) -> None:
    """Serve `folder`/index.html at / and the files that it loads below /assets."""
    top = _Files(folder, SAFE | ALWAYS_ASK)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request) -> Response:
        index = folder / "index.html"
        if not index.is_file():
            return JSONResponse({"error": "the page was not built (allowed: make build)"}, 503)
        return top.file_response(index, index.stat(), request.scope)

    if (folder / "assets").is_dir():
        app.mount("/assets", _Files(folder / "assets", SAFE | FOREVER))
