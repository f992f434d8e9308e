"""What stands in the way before anything starts."""

import socket
from pathlib import Path

import pytest

from kraftquorum_demo import environment
from kraftquorum_demo.environment import Environment, NoDns, Places, check_ports, locked
from kraftquorum_demo.errors import DeadlineError, SetupError
from kraftquorum_devcluster.errors import CommandError


def places(out: Path) -> Places:
    root = Path(__file__).parents[3]
    return Places(out, root / "examples" / "demo.yaml", root / "crds" / "kraftquorums.yaml")


def test_a_second_demo_in_the_same_folder_is_told_who_has_it(tmp_path):
    other = pytest.raises(SetupError, match=r"another demo is running in .*out \(process \d+\)")
    with locked(tmp_path / "out"), other, locked(tmp_path / "out"):
        pass
    with locked(tmp_path / "out"):
        pass


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    named = pytest.raises(SetupError, match=r"cannot write to .*--out names another")
    with named, locked(tmp_path / "file"):
        pass


def test_a_taken_port_is_named_with_what_to_do(monkeypatch, session_network):
    host = session_network.host(9)
    monkeypatch.setattr(environment, "_PROBE_ADDRESS", host)
    check_ports()
    with socket.socket() as taken:
        taken.bind((host, 9080))
        taken.listen(1)
        with pytest.raises(SetupError, match="port 9080 is not free: Address already in use"):
            check_ports()


def test_preparing_clears_away_what_an_earlier_demo_left_and_nothing_else(tmp_path):
    for name in ("data", "report.json", "mine"):
        (tmp_path / name).mkdir()
    environment = Environment(places(tmp_path))
    environment.prepare()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["credentials", "logs", "mine"]
    assert (environment.name, environment.wanted) == ("demo", 3)
    assert environment.resource_path == (
        "/apis/kraftquorum.io/v1alpha1/namespaces/default/kraftquorums/demo"
    )
    assert str(environment.endpoint(2)) == "demo-2.demo-peers.default.svc.cluster.local:9080"


def test_a_missing_manifest_says_where_to_run(tmp_path):
    with pytest.raises(SetupError, match="run the demo from the repository's root"):
        Environment(Places(tmp_path, tmp_path / "none.yaml", tmp_path / "none.yaml")).prepare()


def test_paths_are_shown_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Places.shown(tmp_path / "build" / "demo") == Path("build/demo")
    assert Places.shown(Path("/elsewhere")) == Path("/elsewhere")


class Kubectl:
    """Serves the resource after so many refusals."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.asked: list[str] = []

    async def kubectl_async(self, *arguments: str) -> str:
        self.asked.append(arguments[0])
        if arguments[0] == "get" and self.asked.count("get") <= self.refusals:
            raise CommandError("kubectl get", 1, "the server doesn't have a resource type")
        return ""


async def test_the_resource_is_asked_for_until_it_is_served(tmp_path):
    environment = Environment(places(tmp_path))
    environment.cluster = Kubectl(2)
    await environment.apply_crds(5)
    assert environment.cluster.asked == ["apply", "get", "get", "get"]


async def test_a_resource_that_is_never_served_is_a_deadline_with_what_was_said(tmp_path):
    environment = Environment(places(tmp_path))
    environment.cluster = Kubectl(1000)
    with pytest.raises(DeadlineError, match=r"kraftquorums are served; .* a resource type"):
        await environment.apply_crds(0.05)


async def test_names_outside_the_hosts_file_do_not_wait_for_dns():
    with pytest.raises(OSError, match="not in the hosts file"):
        await NoDns().resolve("demo-9.demo-peers")
