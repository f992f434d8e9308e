"""Where a Grafana is at hand, it takes the dashboards as they are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from kraftquorum_observability.generate import BOARDS, ROOT
from monitoringlib.check import boards, panels
from monitoringlib.programs import find
from proofkit.loopback import LoopbackNetwork

pytestmark = pytest.mark.prometheus

HOMES = (Path("/usr/share/grafana"), Path("/opt/grafana"))


@pytest.fixture(scope="module")
def grafana(
    tmp_path_factory: pytest.TempPathFactory, session_network: LoopbackNetwork
) -> Iterator[str]:
    """The address of a Grafana that reads the dashboards from their folder."""
    found, old = find("grafana"), find("grafana-server")
    home = next((path for path in HOMES if path.is_dir()), None)
    program = [str(found), "server"] if found else [str(old)] if old else None
    if program is None or home is None:
        pytest.skip("there is no Grafana on this machine to load the dashboards in")
    folder = tmp_path_factory.mktemp("grafana")
    provider = {
        "apiVersion": 1,
        "providers": [{"name": "ours", "type": "file", "options": {"path": str(ROOT / BOARDS)}}],
    }
    (folder / "provisioning" / "dashboards").mkdir(parents=True)
    (folder / "provisioning" / "dashboards" / "ours.yaml").write_text(yaml.safe_dump(provider))
    host, port = session_network.host(3), 3000
    settings = {
        "GF_PATHS_DATA": str(folder / "data"),
        "GF_PATHS_LOGS": str(folder / "logs"),
        "GF_PATHS_PROVISIONING": str(folder / "provisioning"),
        "GF_SERVER_HTTP_ADDR": host,
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Admin",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
    }
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(
            [*program, "--homepath", str(home)],
            env=os.environ | settings,
            stdout=output,
            stderr=output,
        )
    try:
        yield f"http://{host}:{port}"
    finally:
        process.terminate()
        process.wait(20)


async def test_grafana_has_every_dashboard_with_every_panel(grafana: str) -> None:
    deadline = time.monotonic() + 90
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> Any:
            async with session.get(f"{grafana}{path}") as answer:
                return await answer.json() if answer.status == 200 else None

        for uid, board in boards().items():
            found = None
            while found is None and time.monotonic() < deadline:
                with contextlib.suppress(aiohttp.ClientError):
                    found = await get(f"/api/dashboards/uid/{uid}")
                await asyncio.sleep(0.2)
            assert found is not None, f"Grafana has no {uid}"
            taken = found["dashboard"]
            assert taken["title"] == board["title"]
            assert [one["title"] for one in panels(taken)] == [
                one["title"] for one in panels(board)
            ]
