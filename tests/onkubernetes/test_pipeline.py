"""The pipeline's image on a real kubelet, by the manifests and the commands that users have."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kraftquorum_devcluster import chart

ds = pytest.importorskip("pyarrow.dataset")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900, func_only=True)]

EXTRAS = chart.CHART / "extras" / "spark"
HOWTO = chart.ROOT / "docs" / "howto" / "spark-kubernetes.md"
COMMAND = re.compile(r"^\$ (spark-submit .*?[^\\])$", re.MULTILINE | re.DOTALL)
SUBMIT = Path(sys.executable).with_name("spark-submit")
COPYING_S = 180.0
COPY = """
import shutil, sys, time
from pathlib import Path

def copy(number, tries=20):
    try:
        shutil.copytree(f"/data-{number}", f"/copies/node-{number}", dirs_exist_ok=True)
    except shutil.Error:  # the node lives, and renames files
        if tries == 1:
            raise
        time.sleep(0.2)
        copy(number, tries - 1)

for number in range(3):
    copy(number)
if sys.argv[1:] == ["damage"]:
    segment = max(Path("/copies/node-1").rglob("*.log"))
    data = bytearray(segment.read_bytes())
    data[200] ^= 1
    segment.write_bytes(data)
"""


def rows(table: Path):
    found = ds.dataset(str(table), format="parquet", partitioning="hive").to_table()
    return sorted(found.to_pylist(), key=lambda row: row["offset"])


def check_export(site, table: Path) -> int:
    """Every offset once, and all that the clients were told of; returns the log's end."""
    found = rows(table)
    assert [row["offset"] for row in found] == list(range(len(found)))
    assert sum(row["kind"] == "data" for row in found) >= site.acknowledged
    return len(found)


def test_the_cronjob_exports_and_the_next_run_goes_on_where_it_ended(site):
    site.apply_suspended("export-cronjob.yaml")
    code, said = site.run_job("demo-export", "first")
    assert code == 0, said
    end = check_export(site, site.cluster.volume_dir("history", "demo-history") / "log")
    assert f"of offsets 0 to {end - 1}" in said
    code, said = site.run_job("demo-export", "second")
    assert code == 0, said
    again = check_export(site, site.cluster.volume_dir("history", "demo-history") / "log")
    # On a busy machine there may have been an election meanwhile, which is a record.
    assert ("nothing new" in said) == (again == end)


def test_spark_submit_of_the_howto_exports_with_two_executors(site, tmp_path):
    site.apply_suspended("export-cronjob.yaml")  # its claim
    site.kubectl("apply", "-f", str(EXTRAS / "rbac.yaml"))
    template = tmp_path / "pod-template.yaml"
    template.write_text(site.with_image((EXTRAS / template.name).read_text()))
    line = COMMAND.search(HOWTO.read_text())[1]
    line = site.with_image(line.replace("\\\n", " "))
    line = line.replace("https://KUBERNETES:6443", site.cluster.server_url)
    line = line.replace("kubernetes.namespace=default", "kubernetes.namespace=history")
    line = line.replace(f"charts/kraftquorum/extras/spark/{template.name}", str(template))
    small = [f"spark.kubernetes.{role}.request.cores=100m" for role in ("driver", "executor")]
    words = shlex.split(line)
    place = words.index("local:///opt/kraftquorum/pipeline.py")
    words[place:place] = [word for one in small for word in ("--conf", one)]
    # Parts of the log for both.
    words += ["-o", "partitionOffsets=50"]
    # As in an activated environment: Spark's script asks `python3` where Spark is.
    environment = site.cluster.kubectl_env()
    environment["PATH"] = f"{SUBMIT.parent}:{environment['PATH']}"
    done = subprocess.run(
        [str(SUBMIT), *words[1:]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    pods = site.get("pods", "-l", "spark-role=driver")["items"]
    [name] = [one["metadata"]["name"] for one in pods]
    said = site.kubectl("logs", name)
    [driver] = [one["status"] for one in pods]
    assert driver["phase"] == "Succeeded", f"{done.stderr[-3000:]}\n{said[-5000:]}"
    assert done.returncode == 0, done.stderr
    end = check_export(site, site.cluster.volume_dir("history", "demo-history") / "spark")
    assert f"of offsets 0 to {end - 1}" in said
    executors = re.findall(r"Registered executor", site.kubectl("logs", name))
    events = site.get("events")["items"]
    started = {
        one["involvedObject"]["name"]
        for one in events
        if one["reason"] == "Started" and "-exec-" in one["involvedObject"]["name"]
    }
    # One that was lost is replaced.
    assert len(started) >= 2, (started, executors)
    site.kubectl("delete", "pod", name)


def copy_replicas(site, *arguments: str) -> None:
    """Copy the replicas' volumes as a user's own job would."""
    numbers = range(3)
    image = {"image": site.pipeline.name, "name": "copy", "command": ["python3", "-c", COPY]}
    mounts = [{"name": f"data-{n}", "mountPath": f"/data-{n}", "readOnly": True} for n in numbers]
    rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "copy"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "fsGroup": 10001,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    **image,
                    "args": list(arguments),
                    "securityContext": rights,
                    "volumeMounts": [*mounts, {"name": "copies", "mountPath": "/copies"}],
                }
            ],
            "volumes": [
                *(
                    {"name": f"data-{n}", "persistentVolumeClaim": {"claimName": f"data-demo-{n}"}}
                    for n in numbers
                ),
                {"name": "copies", "persistentVolumeClaim": {"claimName": "demo-copies"}},
            ],
        },
    }
    site.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    try:
        assert end_of(site, "copy") == "Succeeded", site.kubectl("logs", "copy")
    finally:
        site.kubectl("delete", "pod", "copy")


def end_of(site, pod: str) -> str:
    """The phase in which a pod ends."""
    deadline = time.monotonic() + COPYING_S
    while True:
        phase = site.get("pod", pod)["status"]["phase"]
        if phase in {"Succeeded", "Failed"}:
            return phase
        assert time.monotonic() < deadline, site.kubectl("describe", "pod", pod)
        time.sleep(0.5)


def test_the_cronjob_audits_copies_and_finds_a_flipped_bit(site):
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "demo-copies"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    site.kubectl("create", "-f", "-", stdin=json.dumps(claim))
    copy_replicas(site)
    site.apply_suspended("audit-cronjob.yaml")
    code, said = site.run_job("demo-audit", "sound")
    assert code in {0, 9}, said
    assert "FOUND" not in said
    copy_replicas(site, "damage")
    code, said = site.run_job("demo-audit", "damaged")
    assert code == 8, said
    assert "THE REPLICAS DO NOT AGREE" in said
    assert "node-1" in said
