"""The images as they run: read-only, without rights, without a shell; and how soon."""

import base64
import contextlib
import json
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
import yaml

from kraftquorum_devcluster.errors import ImageError

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]

NODE_OPTIONS = (
    "--tmpfs=/var/lib/raftnode:uid=10001,gid=10001,mode=0700",
    "--env=RAFTNODE_NODE_ID=0",
    "--env=RAFTNODE_LOG_DIR=/var/lib/raftnode",
)


@pytest.fixture
def host(network):
    """Where the containers listen: they have the machine's network."""
    return network.host(1)


def until(look, within_s=60.0):
    deadline = time.monotonic() + within_s
    while True:
        with contextlib.suppress(OSError, urllib.error.URLError):
            if found := look():
                return found
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)


def get(host, path):
    with urllib.request.urlopen(f"http://{host}:9080{path}", timeout=20) as answer:
        return json.load(answer)


def post(host, path, body):
    request = urllib.request.Request(
        f"http://{host}:9080{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def start_node(docker, containers, host):
    begun = time.monotonic()
    listen = f"--env=RAFTNODE_PEER_LISTEN={host}:9093", f"--env=RAFTNODE_API_LISTEN={host}:9080"
    name = docker.start(*NODE_OPTIONS, *listen, image=docker.images.node)
    containers.append(name)
    until(lambda: get(host, "/healthz/live"))
    return name, time.monotonic() - begun


def test_version_is_printed(docker, figures):
    begun = time.monotonic()
    done = docker.run("--version", image=docker.images.node)
    figures["raftnode_version_s"] = round(time.monotonic() - begun, 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("raftnode ")


def test_node_lives_serves_transfers_leadership_and_ends_by_the_signal(
    docker, containers, figures, host
):
    name, seconds = start_node(docker, containers, host)
    figures["node_live_s"] = round(seconds, 2)

    info = get(host, "/v1/node")
    voter = {
        "node_id": 0,
        "directory_id": info["directory_id"],
        "endpoint": info["peer_endpoint"],
    }
    post(host, "/v1/form", {"cluster_id": "TestTestTestTestTestTe", "voters": [voter]})
    until(lambda: get(host, "/healthz/ready"))
    docker.ask(
        "exec", name, "raftnode", "kv", "put", "k", "v", "--bootstrap-server", f"{host}:9080"
    )
    assert "only voter" in docker.ask("exec", name, "raftnode", "node", "transfer-leadership")

    docker.ask("stop", "--time", "45", name)
    state = json.loads(docker.ask("inspect", "--format", "{{json .State}}", name))
    assert state["ExitCode"] == 0, docker.ask("logs", name)
    assert not docker.ask("diff", name).replace("C /run", ""), "nothing was written to its root"


def test_processes_run_as_the_user_without_capabilities(docker, containers, host):
    name, _ = start_node(docker, containers, host)
    read = "print(open('/proc/1/status').read())"
    status = docker.ask("exec", name, "python3", "-c", read)
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["10001"] * 4
    assert fields["CapEff"] == fields["CapPrm"] == "0" * 16
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"


def test_root_file_system_and_shell_are_not_there_to_be_used(docker):
    write = "open('/opt/kraftquorum/x', 'w')"
    python = ["--entrypoint", "python3"]
    done = docker.engine
    for image in (docker.images.node, docker.images.operator):
        with pytest.raises(ImageError, match="Read-only file system"):
            done.ask("run", "--rm", "--read-only", *python, image, "-c", write)
        with pytest.raises(ImageError, match=r"not found|no such file"):
            done.ask("run", "--rm", "--entrypoint", "sh", image, "-c", "true")


def test_standard_library_and_certificates_work(docker):
    script = (
        "import ssl, ctypes, zlib, lzma, bz2, hashlib, uuid, decimal, asyncio, zoneinfo, pwd;"
        "c = ssl.create_default_context();"
        "assert len(c.get_ca_certs()) > 50; print(pwd.getpwuid(10001).pw_name)"
    )
    for image in (docker.images.node, docker.images.operator):
        out = docker.ask(
            "run", "--rm", "--read-only", "--entrypoint", "python3", image, "-c", script
        )
        assert out == "kraftquorum"


def test_node_without_settings_says_what_is_missing(docker):
    done = docker.run(image=docker.images.node)
    assert done.returncode == 2
    assert "node_id" in done.stderr


def test_operator_without_kubernetes_says_so(docker):
    done = docker.run(image=docker.images.operator)
    assert done.returncode == 2, done.stderr
    assert "kraftquorum-operator: " in done.stderr


def test_pause_ends_by_the_signal(docker, containers):
    name = docker.ask("run", "--detach", "--network=none", docker.images.pause)
    containers.append(name)
    begun = time.monotonic()
    docker.ask("stop", "--time", "30", name)
    assert time.monotonic() - begun < 20
    assert docker.ask("inspect", "--format", "{{.State.ExitCode}}", name) == "0"


@pytest.mark.cluster
def test_operator_is_ready_with_a_service_account_and_nothing_to_write_to(
    docker, containers, devcluster, namespace, tmp_path, figures, host
):
    """As in a pod: the account's files, the API server's address in the environment."""
    kubeconfig = yaml.safe_load(devcluster.kubeconfig.read_text())
    server = kubeconfig["clusters"][0]["cluster"]
    account = tmp_path / "account"
    account.mkdir()
    (account / "ca.crt").write_bytes(base64.b64decode(server["certificate-authority-data"]))
    devcluster.kubectl("-n", namespace, "create", "serviceaccount", "operator")
    (account / "token").write_text(
        devcluster.kubectl("-n", namespace, "create", "token", "operator").strip()
    )
    (account / "namespace").write_text(namespace)
    binding = f"image-test-{namespace}"
    devcluster.kubectl(
        *["create", "clusterrolebinding", binding, "--clusterrole=cluster-admin"],
        f"--serviceaccount={namespace}:operator",
    )
    devcluster.kubectl("apply", "-f", "crds/")
    address = urllib.parse.urlsplit(server["server"])
    try:
        begun = time.monotonic()
        name = docker.start(
            f"--volume={account}:/var/run/secrets/kubernetes.io/serviceaccount:ro",
            f"--env=KUBERNETES_SERVICE_HOST={address.hostname}",
            f"--env=KUBERNETES_SERVICE_PORT={address.port}",
            f"--env=KRAFTQUORUM_LEASE_NAMESPACE={namespace}",
            f"--env=KRAFTQUORUM_LIVENESS_HOST={host}",
            "--env=KRAFTQUORUM_LIVENESS_PORT=19444",
            image=docker.images.operator,
        )
        containers.append(name)

        def healthy():
            with urllib.request.urlopen(f"http://{host}:19444/healthz", timeout=2) as answer:
                return answer.status == 200

        try:
            until(healthy)
        except AssertionError:
            pytest.fail(docker.ask("logs", name))
        figures["operator_healthy_s"] = round(time.monotonic() - begun, 2)
        docker.ask("stop", "--time", "45", name)
        code = docker.ask("inspect", "--format", "{{.State.ExitCode}}", name)
        assert code == "0", docker.ask("logs", name)
    finally:
        devcluster.kubectl("delete", "clusterrolebinding", binding)
