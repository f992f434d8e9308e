"""A private dockerd, and nothing left of it afterwards but the layers in the cache."""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

from kraftquorum_devcluster.errors import ImageError
from kraftquorum_devcluster.files import remove_tree
from kraftquorum_devcluster.paths import private_dir
from kraftquorum_devcluster.progress import BuildProgress

_LAUNCHER = str(Path(__file__).parents[1] / "launch.py")
_STEP = "start a private Docker engine"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_SHARED = (
    "/run/docker/plugins",
    "/run/docker",
    "/run/containerd/s",
    "/run/containerd",
    "/run/runc",
)
_CGROUPS = Path("/sys/fs/cgroup")
_CGROUP = "kraftquorum-engine"
_OPTIONS = (
    "--bridge=none",
    "--iptables=false",
    "--ip-forward=false",
    "--ip-masq=false",
    "--userland-proxy=false",
    f"--cgroup-parent=/{_CGROUP}",
)


@contextlib.contextmanager
def private_engine(cache: Path, progress: BuildProgress) -> Generator[str]:
    """Run a dockerd for as long as the block does; yields what DOCKER_HOST is to be.

    Raises:
        ImageError: It did not start; its log's end is in the message.
    """
    home = private_dir(cache / "engine")
    with (home / "lock").open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.note("another build has the private engine, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        _clean_up(home)  # what a killed process left
        run = Path(tempfile.mkdtemp(prefix="kraftquorum-engine-"))  # a socket's path is short
        (home / "run").write_text(str(run), encoding="utf-8")
        before = {path for path in map(Path, _SHARED) if path.exists()}
        progress.step("starting a private Docker engine")
        process = _start(home, run)
        try:
            _await(process, run, home)
            yield f"unix://{run / 'docker.sock'}"
        finally:
            _stop(process)
            _clean_up(home)
            for path in map(Path, _SHARED):
                if path not in before:
                    with contextlib.suppress(OSError):
                        path.rmdir()


def _start(home: Path, run: Path) -> subprocess.Popen[bytes]:
    program = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise ImageError(_STEP, "there is no dockerd")
    command = [
        *[program, *_OPTIONS],
        *["--data-root", str(home / "data"), "--exec-root", str(run / "exec")],
        *["--pidfile", str(run / "docker.pid"), "--host", f"unix://{run / 'docker.sock'}"],
        *["--config-file", str(run / "daemon.json")],
    ]
    # The machine's own configuration is not for this engine.
    (run / "daemon.json").write_text("{}", encoding="utf-8")
    with (home / "dockerd.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", _LAUNCHER, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            umask=0o022,
        )


def _await(process: subprocess.Popen[bytes], run: Path, home: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not (run / "docker.sock").exists():
        if process.poll() is not None or time.monotonic() > deadline:
            lines = (home / "dockerd.log").read_text(errors="replace").splitlines()
            raise ImageError(_STEP, "\n".join([*lines[-5:], f"the log: {home / 'dockerd.log'}"]))
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_TIMEOUT_S)
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
    process.wait()


def _clean_up(home: Path) -> None:
    """Unmount and remove what belongs to an engine that is gone."""
    note = home / "run"
    run = Path(note.read_text(encoding="utf-8")) if note.is_file() else None
    for path in _mounts():
        if home in path.parents or (run is not None and run in path.parents):
            subprocess.run(["umount", "--lazy", str(path)], capture_output=True, check=False)
    if run is not None:
        remove_tree(run)
        note.unlink()
    for cgroup in (*_CGROUPS.glob(f"*/{_CGROUP}"), _CGROUPS / _CGROUP):
        for directory, _, _ in os.walk(cgroup, topdown=False):
            with contextlib.suppress(OSError):
                Path(directory).rmdir()


def _mounts() -> list[Path]:
    """Mount points, the innermost first."""
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return [Path(line.split()[1].replace("\\040", " ")) for line in reversed(lines)]
