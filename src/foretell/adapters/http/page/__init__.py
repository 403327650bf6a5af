"""The web page at / and its description at /docs: plain files without external resources."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI, Response

from foretell.adapters.http.server.problems import NOT_FOUND, ProblemError

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
#: Path of each page to its file.
_PAGES = {"/": "index.html", "/docs": "docs.html"}


def add_page(app: FastAPI) -> None:
    """Serve the files of the page; they are read once, and no path leads to any other file."""
    content = {
        file.name: (file.read_bytes(), f"{_TYPES[suffix]}; charset=utf-8")
        for file in files(__package__).iterdir()
        if (suffix := f".{file.name.rpartition('.')[2]}") in _TYPES
    }

    def add(path: str, name: str) -> None:
        @app.get(path, include_in_schema=False)
        async def page() -> Response:
            body, media_type = content[name]
            return Response(body, media_type=media_type)

    for path, name in _PAGES.items():
        add(path, name)

    @app.get("/page/{name}", include_in_schema=False)
    async def part(name: str) -> Response:
        if name not in content:
            raise ProblemError(NOT_FOUND, "the page has no such file")
        body, media_type = content[name]
        return Response(body, media_type=media_type)
