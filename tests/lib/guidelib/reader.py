"""A person who types the blocks of a page into a shell, on the development cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import yaml

from guidelib.pages import Page, prints
from kraftquorum_devcluster import DevCluster
from kraftquorum_devcluster.paths import binaries_dir

BIN = Path(sys.executable).parent
TIMEOUT_S = 600
WAIT_S = 180.0
"""Both are for something good on a busy machine: the pages have deadlines of their own."""
LOCALHOST = ("localhost", "127.0.0.1")


class Reader:
    """Runs the examples of a page in a folder, and holds what they print against the page."""

    def __init__(self, page: str, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._page = Page(page)
        self._environment = environment or {"PATH": f"{BIN}:{os.environ['PATH']}"}

    def example(self, name: str) -> str:
        """A block of the page, with the names of this place."""
        return self._here(self._page.examples[name])

    def save(self, name: str, file: str) -> None:
        """Save a block as the file that the page names."""
        (self.folder / file).write_text(self.example(name))

    def type(self, script: str) -> tuple[int, str]:
        """Run commands in one shell; returns its exit code and all that it prints."""
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=self.folder,
            env=os.environ | self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout

    def run(self, name: str, *more: str, fails: bool = False) -> str:
        """Run examples in one shell, and check the exit code and what the last one prints."""
        code, printed = self.type("\n".join(map(self.example, (name, *more))))
        assert (code != 0) == fails, printed
        last = (name, *more)[-1]
        assert self._is_shown(last, printed), self._differs(last, printed)
        return printed

    def until_shows(self, name: str, timeout_s: float = WAIT_S) -> str:
        """Run an example until it prints what the page shows; returns that."""
        assert name in self._page.outputs, f"the page shows no output of {name}"
        deadline = time.monotonic() + timeout_s
        code, printed = self.type(self.example(name))
        while code or not self._is_shown(name, printed):
            assert time.monotonic() < deadline, self._differs(name, printed)
            time.sleep(0.5)
            code, printed = self.type(self.example(name))
        return printed

    def _is_shown(self, name: str, printed: str) -> bool:
        shown = self._page.outputs.get(name)
        return shown is None or prints(self._here(shown), printed)

    def _differs(self, name: str, printed: str) -> str:
        return f"{name} prints\n{printed}and the page shows\n{self._page.outputs[name]}"

    def _here(self, text: str) -> str:
        return text


class ClusterReader(Reader):
    """A reader whose `kubectl` reaches the development cluster and one namespace of it.

    The namespaces that the pages name, `prod`, `default` and `kraftquorum-system`, are this one.

    Args:
        forwarded: Where `kubectl port-forward` listens: curl asks it in place of localhost.
        operator: Address of the operator's metrics, as `deployment/kraftquorum` has it.
        programs: A folder with further programs that the page needs.
    """

    def __init__(
        self,
        page: str,
        folder: Path,
        cluster: DevCluster,
        namespace: str,
        *,
        forwarded: str = "",
        operator: str = "",
        programs: Path = BIN,
    ) -> None:
        self._cluster, self._namespace = cluster, namespace
        self._home = folder / ".reader"
        self._home.mkdir(exist_ok=True)
        self._forwarded = forwarded
        place = {
            "state_dir": str(cluster.state_dir),
            "kubectl": str(binaries_dir() / "kubectl"),
            "namespace": namespace,
            "listen": forwarded,
            "operator": operator,
        }
        (self._home / "place.json").write_text(json.dumps(place))
        self._write_kubeconfig()
        program = self._home / "kubectl"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m guidelib.kubectl "$@"\n')
        program.chmod(0o755)
        environment = {
            "PATH": f"{self._home}:{programs}:{BIN}:{os.environ['PATH']}",
            "KUBECONFIG": str(self._home / "kubeconfig"),
            "KUBECACHEDIR": str(cluster.state_dir / "kubectl-cache"),
            "CURL_HOME": str(self._home),
            "GUIDE_PLACE": str(self._home / "place.json"),
        }
        super().__init__(page, folder, environment)

    def _write_kubeconfig(self) -> None:
        config = yaml.safe_load(self._cluster.kubeconfig.read_text())
        for context in config["contexts"]:
            context["context"]["namespace"] = self._namespace
        (self._home / "kubeconfig").write_text(yaml.safe_dump(config))

    def type(self, script: str) -> tuple[int, str]:
        """As `Reader.type`; curl finds forwarded ports and the pods of this moment."""
        reached = [(name, self._forwarded) for name in LOCALHOST if self._forwarded]
        for line in self._cluster.hosts_file.read_text().splitlines():
            address, *aliases = line.split()
            reached += [(name, address) for name in aliases]
        lines = [f'connect-to = "{name}::{address}:"\n' for name, address in reached]
        (self._home / ".curlrc").write_text("".join(lines))
        return super().type(script)

    def _here(self, text: str) -> str:
        named = re.sub(r"\b(prod|kraftquorum-system)\b", self._namespace, text)
        return named.replace(".default.", f".{self._namespace}.")
