"""What is kept of a case that failed, also where little can be had."""

from e2elib import evidence
from kraftquorum_devcluster.errors import ApiError, CommandError


class Broken:
    """A cluster that answers nothing."""

    def __init__(self, logs):
        self._logs = logs
        self.api = self

    def kubectl(self, *words, timeout_s=0):
        raise CommandError(" ".join(words), 1, "the server is away")

    def all(self, kind, namespace):
        raise ApiError(403, "Forbidden", "no rights")

    def logs(self):
        return (self._logs,)


class Whole(Broken):
    """One that answers."""

    def kubectl(self, *words, timeout_s=0):
        return f"said: {' '.join(words)}\nthe last line\n"

    def all(self, kind, namespace):
        return [{"metadata": {"name": "demo-0"}}]


def cluster_logs(tmp_path):
    place = tmp_path / "logs" / "node-1"
    place.mkdir(parents=True)
    (place / "kubelet.log").write_text("I1121 started\n")
    return tmp_path / "logs"


def test_everything_is_kept_and_its_end_told(tmp_path):
    folder = tmp_path / "case"
    short = evidence.keep(Whole(cluster_logs(tmp_path)), ["here"], folder)
    kept = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert kept == [
        "cluster/node-1/kubelet.log",
        "here/demo-0.log",
        "here/demo-0.previous.log",
        "here/describe.txt",
        "here/events.txt",
        "here/objects.yaml",
    ]
    assert "logs demo-0" in (folder / "here" / "demo-0.log").read_text()
    assert "--- the end of demo-0's log" in short
    assert "--- here: the last events" in short


def test_a_cluster_that_answers_nothing_leaves_its_logs_and_says_so(tmp_path):
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "of an earlier run").touch()
    short = evidence.keep(Broken(cluster_logs(tmp_path)), ["here"], folder)
    assert "the server is away" in short
    assert (folder / "cluster" / "node-1" / "kubelet.log").exists()
    assert not (folder / "of an earlier run").exists()
