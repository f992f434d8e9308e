"""Container images out of archives, to the nodes; nothing is ever pulled."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kraftquorum_devcluster.errors import StartError
from kraftquorum_devcluster.paths import cache_root

from .machine import run_on_node
from .settings import RUNTIME_SOCKET

_IMPORT_TIMEOUT_S = 600


def sandbox_archive() -> Path:
    """The archive with the sandbox's image, without which no pod starts.

    Raises:
        StartError: It was not built yet.
    """
    path = cache_root() / "images" / "pause-1.tar"
    if not path.is_file():
        raise StartError(
            "node", f"{path} is missing: build the images first (`devcluster image build`)"
        )
    return path


def import_archives(first_pids: Mapping[str, int], archives: Iterable[Path]) -> None:
    """Bring the images of archives to all nodes, node by node side by side.

    Args:
        first_pids: First process of each node.
        archives: As `docker save` or an OCI layout's `tar` writes them.

    Raises:
        CommandError: An archive is not one.
    """
    wanted = list(archives)

    def import_to(pid: int) -> None:
        for archive in wanted:
            run_on_node(
                pid,
                *["ctr", f"--address={RUNTIME_SOCKET}", "--namespace=k8s.io"],
                *["images", "import", "-"],
                stdin=archive,
                timeout_s=_IMPORT_TIMEOUT_S,
            )

    with ThreadPoolExecutor(max_workers=max(1, len(first_pids))) as pool:
        list(pool.map(import_to, first_pids.values()))
