"""Programs that the distribution brings: found, or installed by apt where we may."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from kraftquorum_devcluster.errors import StartError

CNI_DIR = Path("/usr/lib/cni")
PROGRAMS: Mapping[str, str] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mkfs.ext4": "e2fsprogs",
}
"""Program → Debian package."""
_PLUGINS = ("bridge", "host-local", "loopback")
_PLUGINS_PACKAGE = "containernetworking-plugins"
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def search_path() -> str:
    """PATH with the administrator's directories, which a plain user's lacks."""
    return f"{os.environ.get('PATH', '')}:{_SYSTEM_PATH}"


def missing_packages() -> list[str]:
    """Debian packages of what is not there, in order of names."""
    path = search_path()
    missing = {package for name, package in PROGRAMS.items() if not shutil.which(name, path=path)}
    if not all(os.access(CNI_DIR / plugin, os.X_OK) for plugin in _PLUGINS):
        missing.add(_PLUGINS_PACKAGE)
    return sorted(missing)


def ensure_packages() -> None:
    """Install what is missing, if this is root on a machine with apt.

    Raises:
        StartError: We may not, or it failed; naming the command to run.
    """
    if os.geteuid() != 0:
        raise StartError(
            "node", "containers, mounts and networks need root: run this as root, or in a machine"
        )
    missing = missing_packages()
    if not missing:
        return
    said = install(missing)
    if left := missing_packages():
        raise StartError("node", f"{', '.join(left)} not installed\n{said}")


def install(packages: list[str]) -> str:
    """Have apt install packages; as root.

    Returns:
        What apt said last on its standard error, for a caller that finds a package still missing.

    Raises:
        StartError: There is no apt here, or it failed; naming the command to run.
    """
    apt = shutil.which("apt-get", path=search_path())
    words = ["install", "--yes", "--no-install-recommends", *packages]
    by_hand = f"apt-get {' '.join(words)}"
    if apt is None:
        raise StartError("node", f"missing: {', '.join(packages)} (on Debian: {by_hand})")
    done = _run_apt(apt, words)
    if done.returncode != 0:  # perhaps only the lists of packages are old, or not there
        _run_apt(apt, ["update"])
        done = _run_apt(apt, words)
    said = "\n".join(done.stderr.strip().splitlines()[-4:])
    if done.returncode != 0:
        missing = ", ".join(packages)
        raise StartError("node", f"{missing} not installed; try {by_hand}\n{said}")
    return said


def _run_apt(apt: str, words: list[str]) -> subprocess.CompletedProcess[str]:
    # No service of the distribution is started: everything here runs under the supervisor.
    environment = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "RUNLEVEL": "1",
        "PATH": search_path(),
    }
    return subprocess.run(
        [apt, "-o", "DPkg::Lock::Timeout=300", "-qq", *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
