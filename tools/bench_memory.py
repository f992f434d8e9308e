"""Measures the memory of a node at rest, and what its imports take: `make bench-memory`.

A real node, a quorum of one. RSS counts each page that the process has mapped, PSS shares the
pages of libraries with the other processes that use them. The list has the imports that grow the
process most, each with what it imports first.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from proofkit.localquorum import LocalQuorum
from proofkit.loopback import claim_loopback

_AT_REST_S = 3.0

_IMPORTS = """
import importlib.machinery as machinery, os, sys
sys.modules["hypothesis"] = sys.modules["rich"] = None
statm = os.open("/proc/self/statm", os.O_RDONLY)
page_kib = os.sysconf("SC_PAGE_SIZE") // 1024

def resident():
    return int(os.pread(statm, 100, 0).split()[1]) * page_kib

grown = {}

def measured(loader):
    execute = loader.exec_module
    def exec_module(self, module):
        before = resident()
        try:
            return execute(self, module)
        finally:
            grown[module.__name__] = resident() - before
    loader.exec_module = exec_module

measured(machinery.SourceFileLoader)
measured(machinery.ExtensionFileLoader)
first = resident()
from raftnode import plain_start
with plain_start.no_authorities():
    import raftnode.runtime.server
after = resident()
print(f"{after / 1024:8.1f} MiB after {len(sys.modules)} imports; {first / 1024:.1f} before")
for name in sorted(grown, key=grown.get, reverse=True)[:int(sys.argv[1])]:
    print(f"{grown[name] / 1024:8.1f} MiB {name}")
"""


def _kib(process_id: int) -> dict[str, int]:
    """The sums over the process's mappings, in KiB."""
    lines = Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines()[1:]
    return {line.split(":")[0]: int(line.split()[1]) for line in lines}


async def _measure(root: Path) -> None:
    with claim_loopback() as network:
        async with LocalQuorum(root, 1, network, {}) as quorum:
            [node] = quorum.nodes
            began_s = time.monotonic()
            await quorum.form(1)
            formed_s = time.monotonic() - began_s
            await asyncio.sleep(_AT_REST_S)
            assert node.process is not None
            kib = _kib(node.process.pid)
            for name in ("Rss", "Pss", "Anonymous"):
                print(f"{kib[name] / 1024:8.1f} MiB {name}")
            print(f"{formed_s:8.2f} s from the start to a formed quorum of one")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--imports", type=int, default=30, help="how many imports to list")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_measure(Path(directory)))
    subprocess.run([sys.executable, "-c", _IMPORTS, str(options.imports)], check=True)


if __name__ == "__main__":
    main()
