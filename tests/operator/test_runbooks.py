"""Every command of the runbooks, run on a quorum: what reads is run, what changes is tried.

Changes are sent with `--dry-run=server`: the API server checks all of it and keeps nothing.
`kubectl exec POD -- raftnode …` runs the program here, which asks the same replica. What is about the operator's Deployment is compared with what the chart makes.
"""

from __future__ import annotations

import re
import shlex
import time
import urllib.request
from pathlib import Path

import pytest

from guidelib.reader import ClusterReader
from kraftquorum_devcluster.errors import CommandError

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.extended,
    pytest.mark.timeout(900),
]

ROOT = Path(__file__).resolve().parents[2]
CHANGES = {"delete", "patch", "scale", "cordon", "apply"}
API_PORT = 9080
REFUSED = 3
MISSING_HERE = {
    ("top", "pod"): "Metrics API not available",
    ("get", "podmonitors,networkpolicies"): 'doesn\'t have a resource type "podmonitors"',
    ("logs", "--previous"): "has written no log yet",
    ("get", "configmap"): 'configmaps "demo-client-ca" not found',
}
"""What this cluster answers to sound commands: it has neither the metrics server nor the Prometheus operator, the pods of this test have not restarted, and their quorum has no TLS."""


def found() -> list[str]:
    """Each command once, as it is written."""
    lines: dict[str, None] = {}
    for path in sorted((ROOT / "docs" / "operations" / "runbooks").glob("*.md")):
        for block in re.findall(
            r"^ *```sh\n(.*?)^ *```$", path.read_text(), re.MULTILINE | re.DOTALL
        ):
            lines |= {line.strip(): None for line in block.splitlines() if "kubectl" in line}
    return list(lines)


class Reader:
    """A person who has set the variables and types the commands."""

    def __init__(self, krq, shell: ClusterReader, ordinal: int, uuid: str, node: str) -> None:
        self.krq, self.shell = krq, shell
        self.values = {
            "N": krq.namespace,
            "Q": "demo",
            "I": str(ordinal),
            "UUID": uuid,
            "NODE": node,
        }
        self.ran: list[str] = []
        self.left: list[str] = []

    def type(self, line: str) -> None:
        words = [
            re.sub(r"\$([A-Z]+)", lambda match: self.values[match[1]], word)
            for word in shlex.split(line)
        ][1:]
        if "|" in words:  # what a filter of the answer leaves is no part of the command
            words = words[: words.index("|")]
        told = words[words.index("-n") + 1] if "-n" in words else ""
        if told == "kraftquorum-system" or words[0] == "port-forward":
            self.left.append(line)
        elif words[0] == "exec":
            self.exec(words)
        elif "--raw" in words:
            self.raw(words[words.index("--raw") + 1])
        else:
            if words[0] in CHANGES:
                words.append("--dry-run=server")
            # The process node's logs know no times.
            words = [word for word in words if not word.startswith("--since")]
            try:
                self.krq.cluster.kubectl(*words)
            except CommandError as error:
                answers = [MISSING_HERE.get((words[0], word), "") for word in words[1:]]
                if not any(answer and answer in str(error) for answer in answers):
                    raise
        self.ran.append(line)

    def address(self, pod: str) -> str:
        return str(self.krq.get("pods", pod)["status"]["podIP"])

    def exec(self, words: list[str]) -> None:
        fails = "remove-voter" in words
        if fails:  # said to be no voter: nothing is done, all is parsed
            words[words.index("--replica-uuid") + 1] = "AAAAAAAAAAAAAAAAAAAAAQ"
        code, printed = self.shell.type(shlex.join(["kubectl", *words]))
        assert code == (REFUSED if fails else 0), f"{words}: {code} {printed}"
        assert printed.strip()

    def raw(self, path: str) -> None:
        if "/proxy/" not in path:
            assert self.krq.cluster.kubectl("get", "--raw", path)
            return
        match = re.fullmatch(r"/api/v1/namespaces/([^/]+)/pods/([^/:]+):9080/proxy(/metrics)", path)
        assert match, path
        assert match[1] == self.krq.namespace
        url = f"http://{self.address(match[2])}:{API_PORT}{match[3]}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"raftnode_fsync_seconds" in answer.read()


KAFKA_QUORUM = """
apiVersion: kraftquorum.io/v1alpha1
kind: KafkaQuorum
metadata: {name: demo}
spec: {addresses: [kafka.example:9093]}
"""
"""What the runbooks about Kafka read; no operator checks it here."""


def test_every_command_of_the_runbooks_runs(
    krq, operators, kafka_crd: None, tmp_path: Path
) -> None:
    operators.start()
    krq.apply(voters=3, replacement={"gracePeriodSeconds": 2})
    krq.ready(3)
    ordinal = (krq.leader() + 1) % 3
    node = krq.get("pods", f"demo-{ordinal}")["spec"]["nodeName"]
    krq.kubectl("apply", "-f", "-", stdin=KAFKA_QUORUM)
    shell = ClusterReader("operations/runbooks/README.md", tmp_path, krq.cluster, krq.namespace)
    reader = Reader(krq, shell, ordinal, dict(krq.voters())[ordinal], node)
    lines = found()
    assert len(lines) > 30
    wrong = []
    for line in lines:
        try:
            reader.type(line)
        except (AssertionError, CommandError) as error:
            wrong.append(f"{line}\n    {error}")
    assert not wrong, "\n".join(wrong)
    assert len(reader.ran) - len(reader.left) > 25
    # Nothing of it has changed anything.
    krq.ready(3)
    assert not krq.get("krq")["spec"]["pause"]
    assert krq.get("pvc", f"data-demo-{ordinal}")["metadata"].get("deletionTimestamp") is None


def test_a_disk_is_replaced_as_the_runbook_says(krq, operators, writing) -> None:
    """docs/operations/runbooks/kraftquorum-disk-failing.md, with policy `Manual`."""
    operators.start()
    krq.apply(
        voters=3,
        replacement={"gracePeriodSeconds": 2, "policy": "Manual"},
    )
    krq.ready(3)
    writing.start()
    ordinal = (krq.leader() + 1) % 3
    old = dict(krq.voters())[ordinal]
    krq.break_disk(ordinal)
    krq.until(
        "left to a person",
        lambda: krq.status().get("waitingFor") == "deletion_policy_allows",
    )
    text = (ROOT / "docs" / "operations" / "runbooks" / "kraftquorum-disk-failing.md").read_text()
    block = text.split("`deletion_policy_allows`")[1].split("```")[1]
    typed = [line.strip() for line in block.splitlines() if "kubectl" in line]
    assert [line.split()[1:3] for line in typed] == [["delete", "pvc"], ["delete", "pod"]]
    values = {"N": krq.namespace, "Q": "demo", "I": str(ordinal)}
    for line in typed:
        words = shlex.split(re.sub(r"\$([A-Z]+)", lambda match: values[match[1]], line))
        krq.cluster.kubectl(*words[1:])
        time.sleep(0.5)
    krq.replaced(ordinal, old)
    messages = [entry["message"] for entry in krq.status()["timeline"]]
    assert any(message.startswith(f"Voter {ordinal} added") for message in messages)
    assert any(message.startswith(f"Voter {ordinal} removed") for message in messages)
    assert messages[-1].startswith("The quorum is ready")
    writing.finish()
