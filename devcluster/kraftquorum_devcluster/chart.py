"""The chart as tools and tests hold it: rendered, linted, checked against schemas.

Works in a checkout only. `python -m kraftquorum_devcluster.chart check` is the first part of
`make chart`; `… manifests DIR` writes the kustomize base from the chart's default render.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from .binaries import ensure_binaries
from .errors import CommandError, DevClusterError
from .schemas import LOCATION, crd_schemas, ensure_schemas, write_schemas
from .versions import CHART_TOOLS, KUBERNETES_VERSION

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "kraftquorum"
CASES = CHART / "ci"
"""Values files that the chart is checked with, each a way that people install it."""
BASE = ROOT / "deploy" / "kustomize" / "base"
NAMESPACE = "kraftquorum-system"
RELEASE = "kraftquorum"

_NOT_HELM = ("app.kubernetes.io/managed-by", "helm.sh/chart", "helm.sh/resource-policy")
_NOTICE = "# Made by `make manifests` from charts/kraftquorum. Do not edit.\n"


def helm(*arguments: str, kubeconfig: Path | None = None, timeout_s: float = 180) -> str:
    """Run helm; returns what it printed.

    Raises:
        CommandError: It ended with an error.
        BuildError: It could not be made.
    """
    command = [str(ensure_binaries(wanted=CHART_TOOLS) / "helm"), *arguments]
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home}
        environment |= {"HELM_DATA_HOME": home, "HELM_REPOSITORY_CACHE": home}
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}".strip()
        raise CommandError(f"helm {' '.join(arguments)}", done.returncode, said)
    return done.stdout


def render(
    *arguments: str, chart: Path = CHART, namespace: str = NAMESPACE, release: str = RELEASE
) -> list[Json]:
    """The objects that the chart makes with some more arguments of `helm template`."""
    place = [str(chart), f"--namespace={namespace}", f"--kube-version={KUBERNETES_VERSION}"]
    text = helm("template", release, *place, *arguments)
    return [cast("Json", document) for document in yaml.safe_load_all(text) if document]


def lint(*arguments: str, chart: Path = CHART) -> str:
    """`helm lint --strict`."""
    version = f"--kube-version={KUBERNETES_VERSION}"
    return helm("lint", "--strict", "--quiet", version, str(chart), *arguments)


def conform(objects: Sequence[Json], own_crds: Path = ROOT / "crds") -> None:
    """Check objects against the schemas of their kinds, unknown fields included.

    Raises:
        CommandError: What kubeconform says of those that are not valid, or of unknown kinds.
    """
    program = ensure_binaries(wanted=CHART_TOOLS) / "kubeconform"
    with tempfile.TemporaryDirectory() as name:
        for path in own_crds.glob("*.yaml"):
            schemas = crd_schemas(yaml.safe_load(path.read_text(encoding="utf-8")))
            write_schemas(Path(name), schemas)
        places = [f"{place}/{LOCATION}" for place in (ensure_schemas(), name)]
        command = [str(program), "-strict", "-kubernetes-version", KUBERNETES_VERSION]
        done = subprocess.run(
            [*command, *(f"-schema-location={place}" for place in places), "-"],
            # As JSON, since the two sides do not agree on which words YAML takes for numbers.
            input="\n---\n".join(map(json.dumps, objects)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    if done.returncode != 0:
        raise CommandError("kubeconform", done.returncode, done.stdout + done.stderr)


def manifests() -> dict[str, str]:
    """The files of the kustomize base, by name: the chart's default render, without Helm's own.

    The CRD is not among them: `make crds` writes it there, without Helm.
    """
    operator = render("--set=crds.install=false")
    for document in operator:
        meta: Json = document["metadata"]
        for key in ("labels", "annotations"):
            labels_or_annotations: dict[str, str] = meta.pop(key, None) or {}
            left = {k: v for k, v in labels_or_annotations.items() if k not in _NOT_HELM}
            if left:
                meta[key] = left
        template: Json = document.get("spec", {}).get("template", {})
        labels: dict[str, str] = template.get("metadata", {}).get("labels", {})
        for key in _NOT_HELM:
            labels.pop(key, None)
    enforce = "pod-security.kubernetes.io/enforce"
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {enforce: "restricted"}},
    }
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["namespace.yaml", "kraftquorums.yaml", "operator.yaml"],
    }
    files = {
        "kustomization.yaml": [kustomization],
        "namespace.yaml": [namespace],
        "operator.yaml": operator,
    }
    return {
        name: _NOTICE + yaml.safe_dump_all(objects, sort_keys=False, width=100, allow_unicode=True)
        for name, objects in files.items()
    }


def check() -> int:
    """Lint and check the chart with every values file; says what each step took."""
    started = time.monotonic()
    ensure_binaries(wanted=CHART_TOOLS)
    ensure_schemas()
    _say(f"tools and schemas: {time.monotonic() - started:.1f} s")
    failed = 0
    for case in [None, *sorted(CASES.glob("*.yaml"))]:
        started = time.monotonic()
        values = [] if case is None else [f"--values={case}"]
        name = "default values" if case is None else case.name
        try:
            lint(*values)
            objects = render(*values)
            conform(objects)
        except CommandError as error:
            _say(f"{name}: {error}")
            failed += 1
        else:
            seconds = time.monotonic() - started
            _say(f"{name}: {len(objects)} objects, lint and schemas passed, {seconds:.1f} s")
    stale = [
        name
        for name, text in manifests().items()
        if not (BASE / name).exists() or (BASE / name).read_text(encoding="utf-8") != text
    ]
    if stale:
        _say(f"deploy/kustomize/base: {', '.join(stale)} not current, run `make manifests`")
    return 1 if failed or stale else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """`check`, or `manifests DIRECTORY`."""
    try:
        match arguments:
            case ["check"]:
                return check()
            case ["manifests", directory]:
                Path(directory).mkdir(parents=True, exist_ok=True)
                for name, text in manifests().items():
                    (Path(directory) / name).write_text(text, encoding="utf-8")
                return 0
            case ["render", *rest]:
                _say(json.dumps(render(*rest), indent=1))
                return 0
            case _:
                _say("usage: python -m kraftquorum_devcluster.chart check | manifests DIR | render")
                return 2
    except DevClusterError as error:
        _say(f"{error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
