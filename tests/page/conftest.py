"""The status page in a real browser: Debian's Chromium, headless, with no way out of this machine.

Chromium that is missing is a failure here and no skip: `make page` is run to see the page.
"""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kraftquorum_operator.http.listener import listening
from kraftquorum_operator.http.page.server import StatusPage
from kraftquorum_operator.memory.status_cache import StatusCache

ROOT = Path(__file__).resolve().parents[2]
DESKTOP, PHONE = (1280, 900), (390, 844)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"loaded_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_operator = _load(ROOT / "tests" / "operator" / "conftest.py")
# The fixtures of the operator's tests, for a quorum of processes.
crd = _operator.crd
operators, krq = _operator.operators, _operator.krq


@pytest.fixture
def namespace(devcluster: Any) -> Iterator[str]:
    """One with a short name, for the pictures."""
    devcluster.kubectl("create", "namespace", "prod")
    yield "prod"
    devcluster.kubectl("delete", "namespace", "prod", "--wait=false")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One Chromium for all tests."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only with `make page`

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.fail(
            "there is no Chromium: as root, apt-get install --no-install-recommends chromium"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program,
            # Root has no sandbox; a container's /dev/shm is small.
            args=["--no-sandbox", "--disable-dev-shm-usage", "--force-color-profile=srgb"],
        )
        yield browser
        browser.close()


class Tab:
    """One tab, and everything that it asked for or complained about."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.asked: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._dialog)

    def _console(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog {dialog.message}")
        dialog.dismiss()


Opener = Callable[..., Tab]


@pytest.fixture
def tab(browser: Any) -> Iterator[Opener]:
    """Open a tab: of a size, in a colour scheme, with or without scripts."""
    contexts: list[Any] = []

    def open_tab(
        size: tuple[int, int] = DESKTOP, scheme: str = "light", *, scripts: bool = True, scale: float = 1
    ) -> Tab:  # fmt: skip
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            java_script_enabled=scripts,
            device_scale_factor=scale,
            reduced_motion="reduce",
            timezone_id="Asia/Kathmandu",
            locale="en-GB",
        )
        contexts.append(context)
        return Tab(context.new_page())

    yield open_tab
    for context in contexts:
        context.close()


class Server:
    """The page of one status cache, served from a thread of its own."""

    def __init__(self, statuses: StatusCache) -> None:
        self.statuses = statuses
        self._port: Future[int] = Future()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._port.result(10)}/"

    async def _run(self) -> None:
        page = StatusPage(
            self.statuses,
            identity="kraftquorum-7d4b9c-x2x8p",
            is_active=lambda: True,
            # The operator does not look at these quorums again, and a slow browser takes its time.
            stale_s=3600,
        )
        async with listening(page.application(), "127.0.0.1", 0, "page") as port:
            assert port is not None
            self._port.set_result(port)
            await self._stop.wait()

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(10)
            self._loop.close()


@pytest.fixture
def serve() -> Iterator[Callable[[StatusCache], Server]]:
    """Serve the page of a status cache."""
    servers: list[Server] = []

    def start(statuses: StatusCache) -> Server:
        servers.append(Server(statuses))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
