import base64
import contextlib
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
from importlib import resources

import pytest
import yaml

from kraftquorum_devcluster import external, network, processes, state
from kraftquorum_devcluster.errors import AlreadyRunningError, NotRunningError, StartError
from kraftquorum_devcluster.files import remove_tree, replace_link, write_atomically
from kraftquorum_devcluster.kubeconfig import kubeconfig, write_kubeconfig
from kraftquorum_devcluster.pki import create_pki
from kraftquorum_devcluster.processnode.kubelet_api import tail_offset


def test_kubeconfig_is_private_and_complete(tmp_path):
    ca = tmp_path / "ca"
    ca.write_text("CA")
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://x:1", "secret", ca)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = yaml.safe_load(path.read_text())
    cluster = document["clusters"][0]["cluster"]
    assert cluster["server"] == "https://x:1"
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"CA"
    assert document["users"][0]["user"] == {"token": "secret"}
    names = {document["contexts"][0]["context"]["cluster"], document["current-context"]}
    assert names == {document["clusters"][0]["name"]}
    assert "namespace: special" in kubeconfig("u", "t", b"", namespace="special")


def test_certificates_are_private_and_name_the_addresses(tmp_path):
    pki = create_pki(tmp_path / "pki", ["127.77.0.1", "localhost"])
    for key in (pki.ca.key, pki.server.key, pki.service_account_key):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    from cryptography import x509  # noqa: PLC0415

    server = x509.load_pem_x509_certificate(pki.server.certificate.read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["127.77.0.1", "localhost"]
    ca = x509.load_pem_x509_certificate(pki.ca.certificate.read_bytes())
    server.verify_directly_issued_by(ca)
    client = x509.load_pem_x509_certificate(pki.kubelet_client.certificate.read_bytes())
    client.verify_directly_issued_by(ca)
    names = client.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == ["apiserver"], (
        "a kubelet refuses it without names"
    )
    assert "O=system:masters" in client.subject.rfc4514_string()


def test_two_clusters_get_two_subnets():
    with contextlib.ExitStack() as stack:
        first = network.claim_subnet()
        stack.callback(first.claim.close)
        second = network.claim_subnet()
        stack.callback(second.claim.close)
        assert first.number != second.number
        with pytest.raises(StartError, match="no free loopback subnet"):
            network.claim_subnet([first.number, second.number])


def test_busy_port_is_passed_over(session_network):
    host = session_network.host(9)
    with socket.socket() as busy:
        busy.bind((host, 17000))
        busy.listen()
        assert network.free_port(host, 17000) == 17001


def test_state_directory_belongs_to_one_supervisor(tmp_path):
    assert not state.is_locked(tmp_path)
    assert state.supervisor_pid(tmp_path) is None
    with state.take_lock(tmp_path):
        assert state.supervisor_pid(tmp_path) == os.getpid()
        with pytest.raises(AlreadyRunningError):
            state.take_lock(tmp_path)
    assert not state.is_locked(tmp_path)


def test_atomic_write_leaves_no_half_file(tmp_path):
    path = tmp_path / "f"
    write_atomically(path, "one")
    write_atomically(path, "two", 0o644)
    assert path.read_text() == "two"
    with pytest.raises(AttributeError):
        write_atomically(path, None)  # type: ignore[arg-type]
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_links_and_trees(tmp_path):
    target = tmp_path / "a"
    target.mkdir()
    replace_link(tmp_path / "l", target)
    replace_link(tmp_path / "l", tmp_path / "b")
    assert (tmp_path / "l").readlink() == tmp_path / "b"
    (target / "sub").mkdir()
    (target / "sub").chmod(0)
    remove_tree(target)
    remove_tree(target)
    assert not target.exists()


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\n", 5, b"a\n"),
        (b"a\n", 0, b""),
        (b"", 3, b""),
        (b"\n\n\n", 2, b"\n\n"),
        (b"x" * 70000 + b"\ny\n", 2, b"x" * 70000 + b"\ny\n"),
    ],
)
def test_tail_begins_at_a_whole_line(tmp_path, text, lines, expected):
    path = tmp_path / "log"
    path.write_bytes(text)
    assert text[tail_offset(path, lines) :] == expected


def test_launcher_keeps_the_exit_code_and_says_what_is_missing():
    launcher = resources.files("kraftquorum_devcluster").joinpath("launch.py")
    base = [sys.executable, "-I", "-S", str(launcher), str(os.getpid())]
    assert subprocess.run([*base, "sh", "-c", "exit 7"], check=False).returncode == 7
    missing = subprocess.run([*base, "no-such"], capture_output=True, text=True, check=False)
    assert missing.returncode == 127
    assert "no-such" in missing.stderr
    orphan = subprocess.run([*base[:4], "1", "true"], check=False)
    assert orphan.returncode == 125, "its parent is another than it was told"


def test_cluster_choice(monkeypatch, tmp_path):
    monkeypatch.delenv("CLUSTER", raising=False)
    assert external.cluster_choice() is external.ClusterChoice.DEVCLUSTER
    monkeypatch.setenv("CLUSTER", "kubelet")
    assert external.cluster_choice() is external.ClusterChoice.KUBELET, "as `make e2e` sets it"
    monkeypatch.setenv("CLUSTER", "moon")
    with pytest.raises(NotRunningError, match="kind"):
        external.cluster_choice()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(NotRunningError, match="absent"):
        external.current_kubeconfig()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotRunningError, match="kind"):
        external.kind_up(tmp_path)


def test_lock_is_not_inherited_by_children(tmp_path):
    with state.take_lock(tmp_path) as lock:
        assert not os.get_inheritable(lock.fileno())
        assert fcntl.fcntl(lock, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


async def test_killed_process_that_takes_its_time_to_end_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_KILL_WAIT_S", 0.0)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = await processes.spawn(
        "slow", command, log=tmp_path / "log", cwd=tmp_path, env={}, owner=str(tmp_path)
    )
    with pytest.raises(TimeoutError):
        await child.stop(0)
    assert await child.end(0) == -signal.SIGKILL
    assert processes.owned_pids(str(tmp_path)) == []
