"""Enforces NetworkPolicies on the nodes, as a network plugin does: the bridge plugin does not.

The rules of a node change within a fraction of a second after an object did. Programs of the nodes
need `iptables` anyway, for kube-proxy.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import structlog

from kraftquorum_devcluster.apiclient import ApiClient
from kraftquorum_devcluster.informer import Informer
from kraftquorum_devcluster.objects import Json
from kraftquorum_devcluster.tasks import TaskSet

from .packages import search_path
from .policy_rules import CHAIN, Policies

_log = structlog.get_logger(__name__)

_GATHER_S = 0.1
"""How long changes are gathered before the rules are made."""
_RETRY_S = 1.0
_APPLY = (
    "iptables-restore --noflush --wait 5 && "
    f"{{ iptables --wait 5 -C FORWARD -j {CHAIN} 2>/dev/null || "
    f"iptables --wait 5 -I FORWARD 1 -j {CHAIN}; }}"
)
_WATCHED = (
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/api/v1/namespaces",
    "/api/v1/pods",
)


class PolicyAgent:
    """Keeps the rules of all nodes current."""

    def __init__(self, api: ApiClient, nodes: Mapping[str, Path]) -> None:
        """Prepare.

        Args:
            api: of an administrator.
            nodes: the network namespace of each node, by name.
        """
        self._nodes = nodes
        self._changed = asyncio.Event()
        self._informers = [Informer(api, path, self._note) for path in _WATCHED]
        self._applied: dict[str, str] = {}

    async def start(self, tasks: TaskSet) -> None:
        """Follow the objects; returns once they are known."""
        for informer in self._informers:
            tasks.start(informer.run(), "informer")
            await informer.synced.wait()
        tasks.start(self._run(), "policies")

    def _note(self, _kind: str, _thing: Json) -> None:
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER_S)
            self._changed.clear()
            policies, namespaces, pods = map(list, self._informers)
            if not policies and not self._applied:
                continue  # a cluster without policies needs no rules
            wanted = Policies(policies, namespaces, pods)
            for node, path in self._nodes.items():
                rules = wanted.rules_of(node)
                if rules != self._applied.get(node) and await self._apply(node, path, rules):
                    self._applied[node] = rules

    async def _apply(self, node: str, path: Path, rules: str) -> bool:
        process = await asyncio.create_subprocess_exec(
            *["nsenter", f"--net={path}", "sh", "-c", _APPLY],
            env={"PATH": search_path()},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate(rules.encode())
        if process.returncode == 0:
            return True
        _log.warning("policies not applied", node=node, why=errors.decode(errors="replace"))
        asyncio.get_running_loop().call_later(_RETRY_S, self._changed.set)
        return False
