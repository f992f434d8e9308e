"""First process of a node: hides what is the machine's, then runs and reaps.

Run as ``python -I -S nodeinit.py CONFIG`` in new mount, process and network namespaces:
standard library only. As the first process of its process namespace it takes everything that
runs on the node with it when it ends.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_RESTART_S = 0.5
_TUNED = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""What a kubelet sets for the whole machine."""
_CREATES_S = 60.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, env={"PATH": _PATH})


def prepare(config: dict[str, Any]) -> None:
    """Give the node directories of its own in place of the machine's.

    Programs find their usual paths there: ``/run``, ``/var/lib`` and ``/var/log``. Settings of
    the whole kernel become read-only, or copies where the kubelet insists on writing; those of
    the node's own network stay writable.
    """
    node_dir, inside = Path(config["node_dir"]), Path(config["inside"])
    _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    inside.mkdir()
    _mount("--bind", str(node_dir / "config"), str(inside))
    _mount("--bind", config["binaries"], str(inside / "bin"))
    _mount("--bind", config["logs_dir"], str(inside / "logs"))
    for name in ("lib", "log"):
        _mount("--bind", str(node_dir / name), f"/var/{name}")
    if config["images_in_memory"]:
        images = Path("/var/lib/containerd")
        images.mkdir(exist_ok=True)
        _mount("-t", "tmpfs", "-o", "mode=0711", "tmpfs", str(images))
    for path in ("/proc/sys/kernel", "/proc/sys/vm"):
        _mount("--bind", path, path)
        _mount("-o", "remount,bind,ro", path)
    for number, name in enumerate(_TUNED):
        copy, real = Path("/run", f"sysctl-{number}"), Path("/proc/sys", name)
        copy.write_bytes(real.read_bytes())
        _mount("--bind", str(copy), str(real))


class Programs:
    """Starts the programs in order and starts again whatever ends."""

    def __init__(self, config: dict[str, Any]) -> None:
        inside = Path(config["inside"])
        self._logs = inside / "logs"
        self._env = {
            "PATH": f"{inside / 'bin'}:{_PATH}",
            "HOME": "/var/lib",
            "LANG": "C.UTF-8",
        }
        self._running: dict[int, dict[str, Any]] = {}
        self._programs: list[dict[str, Any]] = config["programs"]

    def run(self) -> None:
        """Never returns."""
        for program in self._programs:
            self._start(program)
        while True:
            pid, _ = os.wait()
            if (program := self._running.pop(pid, None)) is not None:
                sys.stderr.write(f"{program['name']} ended, starting it again\n")
                time.sleep(_RESTART_S)
                self._start(program)

    def _start(self, program: dict[str, Any]) -> None:
        awaited = Path(program["creates"]) if "creates" in program else None
        if awaited is not None:
            awaited.unlink(missing_ok=True)
        with (self._logs / f"{program['name']}.log").open("ab") as log:
            child = subprocess.Popen(
                program["command"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                cwd="/",
                start_new_session=True,
            )
        self._running[child.pid] = program
        child.returncode = 0  # `run` reaps it
        deadline = time.monotonic() + _CREATES_S
        while awaited is not None and not awaited.exists() and time.monotonic() < deadline:
            time.sleep(0.02)


def main() -> None:
    """Entry point."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # only the end of the namespace ends it
    os.umask(0o022)  # as programs expect it: the root directory of a container is made with it
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    prepare(config)
    with contextlib.suppress(KeyboardInterrupt):
        Programs(config).run()


if __name__ == "__main__":
    main()
