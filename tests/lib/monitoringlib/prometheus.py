"""A real Prometheus on a quorum of devcluster, configured as docs/operations/monitoring.md says."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import aiohttp
import yaml

from kraftquorum_devcluster.errors import StartError
from kraftquorum_devcluster.network import free_port
from kraftquorum_devcluster.processes import Child, spawn
from kraftquorum_observability.generate import ROOT, RULES
from raftnode.client import Credentials

GUIDE = Path("docs/operations/monitoring.md")
STEP_S = 1
"""Between two scrapes, and between two points that are asked for."""

_START_S = 30.0
_GRACE_S = 5.0
_POINTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Series:
    """One series of an answer: its labels, and times (Unix seconds) with values."""

    labels: dict[str, str]
    points: list[tuple[float, float]]


class QueryError(Exception):
    """Prometheus refused an expression."""


def guide_config(text: str) -> dict[str, Any]:
    """The configuration that the guide shows."""
    for block in text.split("```yaml\n")[1:]:
        if block.startswith("rule_files"):
            return cast("dict[str, Any]", yaml.safe_load(block.partition("```")[0]))
    raise AssertionError(f"{GUIDE} shows no configuration of Prometheus")


def configuration(pods: Path, operator: str, scraper: Credentials) -> dict[str, Any]:
    """The guide's configuration, for this cluster: pods by a file, other intervals.

    The operator runs beside the cluster and not in a pod, so it is named.

    Args:
        pods: the file of `discovery`.
        operator: address and port of the operator's metrics.
        scraper: what Prometheus presents to the nodes, and whom it trusts.
    """
    config = guide_config((ROOT / GUIDE).read_text(encoding="utf-8"))
    config["global"] = {"scrape_interval": f"{STEP_S}s", "evaluation_interval": f"{STEP_S}s"}
    config["rule_files"] = [str(ROOT / RULES)]
    for job in config["scrape_configs"]:
        if job["job_name"] == "kraftquorum-operator":
            del job["kubernetes_sd_configs"], job["relabel_configs"]
            # In no pod there is no token of an account, so this operator asks for none.
            del job["scheme"], job["tls_config"], job["authorization"]
            job["static_configs"] = [{"targets": [operator]}]
        else:
            del job["kubernetes_sd_configs"]
            job["scheme"] = "https"
            # The pods come by address, which is in no certificate.
            job["tls_config"] = {"ca_file": str(scraper.ca_file), "server_name": "localhost"}
            job["authorization"] = {"credentials_file": str(scraper.token_file)}
            job["file_sd_configs"] = [{"files": [str(pods)], "refresh_interval": "1s"}]
    return config


class Prometheus:
    """One server. Start it in a running loop, on the main thread; stop it at the end.

    Args:
        program: to run.
        folder: for its configuration, data and log.
        owner: mark by which a later run finds what a killed one left.
        host: to listen on; an address that nothing but this run uses.
    """

    def __init__(self, program: Path, folder: Path, owner: str, host: str) -> None:
        self._program = program
        self._folder = folder
        self._owner = owner
        self._url = f"http://{host}:{free_port(host, 9090)}"
        self._child: Child | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def log(self) -> Path:
        """Its output."""
        return self._folder / "prometheus.log"

    async def start(self, config: dict[str, Any]) -> None:
        """Start it and wait until it answers.

        Raises:
            StartError: It ended, or did not answer in time.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "prometheus.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        self._session = aiohttp.ClientSession()
        self._child = await spawn(
            "prometheus",
            [
                str(self._program),
                f"--config.file={path}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address={self._url.removeprefix('http://')}",
            ],
            log=self.log,
            cwd=self._folder,
            env=dict(os.environ),
            owner=self._owner,
        )
        try:
            async with asyncio.timeout(_START_S):
                while not await self._is_ready():
                    if not self._child.running:
                        raise StartError("prometheus", f"it ended; see {self.log}")
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise StartError("prometheus", f"no answer within {_START_S:.0f} s") from None

    async def _is_ready(self) -> bool:
        assert self._session is not None
        try:
            async with self._session.get(f"{self._url}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def stop(self) -> None:
        """Stop it; nothing happens if it does not run."""
        if self._child is not None:
            await self._child.stop(_GRACE_S)
        if self._session is not None:
            await self._session.close()

    async def over(
        self, expression: str, from_s: float, until_s: float, step_s: float = STEP_S
    ) -> list[Series]:
        """Evaluate an expression at each step of a stretch of time.

        Raises:
            QueryError: It cannot be evaluated.
        """
        step_s = max(step_s, (until_s - from_s) / _POINTS_MAX)
        found = await self._get(
            "query_range",
            {
                "query": expression,
                "start": f"{from_s:.3f}",
                "end": f"{until_s:.3f}",
                "step": f"{step_s}",
            },
        )
        return [
            Series(one["metric"], [(float(at), float(value)) for at, value in one["values"]])
            for one in found["result"]
        ]

    async def at(self, expression: str, when_s: float) -> list[Series]:
        """Evaluate an expression at one time.

        Raises:
            QueryError: It cannot be evaluated.
        """
        found = await self._get("query", {"query": expression, "time": f"{when_s:.3f}"})
        if found["resultType"] == "scalar":
            at, value = found["result"]
            return [Series({}, [(float(at), float(value))])]
        return [
            Series(one["metric"], [(float(one["value"][0]), float(one["value"][1]))])
            for one in found["result"]
        ]

    async def names(self) -> set[str]:
        """The names of all series that it has."""
        return set(await self._get("label/__name__/values", {}))

    async def rules(self) -> list[dict[str, Any]]:
        """Every rule, with its health."""
        found = await self._get("rules", {})
        return [rule for group in found["groups"] for rule in group["rules"]]

    async def targets(self) -> list[dict[str, Any]]:
        """What is scraped now, with its health."""
        return cast("list[dict[str, Any]]", (await self._get("targets", {}))["activeTargets"])

    async def _get(self, path: str, query: dict[str, str]) -> Any:
        assert self._session is not None, "start() comes first"
        async with self._session.get(f"{self._url}/api/v1/{path}", params=query) as answer:
            body: dict[str, Any] = await answer.json()
        if body["status"] != "success":
            raise QueryError(str(body.get("error")))
        return body["data"]
