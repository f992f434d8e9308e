"""The documentation site in a real browser without a network: its diagrams show.

`make page` builds the site first (`make site`).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.page, pytest.mark.timeout(120)]

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
PAGES = ("index.html", "concepts/architecture.html", "operations/failure-modes.html")
DIAGRAM_HEIGHT_PX_MIN = 150


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of the built site, on loopback."""
    if not (SITE / "index.html").exists():
        pytest.fail("there is no built site: make site")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_the_site_asks_no_other_site_and_shows_its_diagrams(tab, site, path):
    opened = tab()
    opened.page.route(
        "**/*",
        lambda route: route.continue_() if route.request.url.startswith(site) else route.abort(),
    )
    opened.page.goto(site + path)
    opened.page.wait_for_load_state("networkidle")
    sources = (SITE / path).read_text().count('<pre class="mermaid">')
    diagrams = opened.page.locator("div.mermaid")
    opened.page.wait_for_function(
        f"document.querySelectorAll('div.mermaid').length === {sources}", timeout=30_000
    )
    for index in range(sources):
        box = diagrams.nth(index).bounding_box()
        assert box is not None
        assert box["height"] > DIAGRAM_HEIGHT_PX_MIN
    assert [url for url in opened.asked if not url.startswith((site, "data:"))] == []
    assert opened.complaints == []


def test_the_site_has_a_page_with_diagrams():
    assert any('<pre class="mermaid">' in (SITE / path).read_text() for path in PAGES)
