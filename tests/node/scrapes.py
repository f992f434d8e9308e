"""One scrape of a running node, for tests that hold its values."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from proofkit.localquorum import LocalNode, eventually


@dataclass(frozen=True, slots=True)
class Scrape:
    """All samples of one scrape, by name; of a label's values, those with 1."""

    samples: dict[str, list[tuple[dict[str, str], float]]]

    def value(self, name: str, **labels: str) -> float:
        """The sum over the series that have these labels."""
        return sum(
            value
            for its_labels, value in self.samples[f"raftnode_{name}"]
            if labels.items() <= its_labels.items()
        )

    @property
    def roles(self) -> set[str]:
        states = self.samples["raftnode_current_state"]
        return {labels["raftnode_current_state"] for labels, value in states if value == 1}


async def scrape(node: LocalNode) -> Scrape:
    def get() -> str:
        with urllib.request.urlopen(f"http://{node.host}:9080/metrics", timeout=10) as answer:
            return answer.read().decode()

    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(await asyncio.to_thread(get)):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return Scrape(samples)


async def scraped_until(node: LocalNode, holds: Callable[[Scrape], bool], what: str) -> Scrape:
    async def look() -> Scrape | None:
        result = await scrape(node)
        return result if holds(result) else None

    return await eventually(look, what=what)
