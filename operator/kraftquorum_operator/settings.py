"""Settings of the operator, from the command line or `KRAFTQUORUM_*` variables.

docs/reference/operator-settings.md is generated from the descriptions here.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from pydantic_settings import SettingsError as UnparsedSettingsError

from kraftquorum_operator import names
from kraftquorum_operator.errors import SettingsError
from kraftquorum_operator.model.certificate_files import CertificateFiles
from kraftquorum_operator.model.installation import NODE_USER_ID, Installation
from kraftquorum_operator.model.network_policy import Peer
from kraftquorum_operator.model.spec import OBJECT_NAME


class Settings(BaseSettings):
    """All settings; the name of a setting ends with its unit."""

    model_config = SettingsConfigDict(
        env_prefix="KRAFTQUORUM_",
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )

    namespace: str | None = None
    """Namespaces to watch, separated by commas; unset or empty: all namespaces."""
    node_image: Annotated[str, Field(min_length=1, max_length=512)] = names.NODE_IMAGE
    """Image of the node for a new quorum whose `spec.image` names none, and for those with
    `spec.imageUpdates: Automatic`."""
    node_image_pull_secrets: str | None = None
    """Secrets for pulling the node's image, separated by commas, for a quorum whose
    `spec.imagePullSecrets` names none. Each namespace with quorums needs its own."""
    node_user: Literal["fixed", "assigned"] = "fixed"
    """`fixed`: the nodes run as user and group 10001. `assigned`: their pods name no user and no
    group, for clusters that assign them, such as OpenShift."""
    cluster_domain: Annotated[
        str,
        Field(
            max_length=63,
            pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        ),
    ] = names.CLUSTER_DOMAIN
    """What names of Services end with: the kubelets' `clusterDomain`. It holds for new quorums. A
    quorum keeps the domain that its addresses were made with."""
    pod_namespace: str | None = None
    """Namespace of this operator's pods, which the network policies of quorums admit; unset: it
    runs outside of the cluster."""
    node_metrics_from: tuple[Peer, ...] = ()
    """Readers of the metrics of all nodes, which the network policies of quorums admit: a JSON list
    of peers as in a Kubernetes NetworkPolicy."""
    kubeconfig: str | None = None
    """Kubeconfig file; unset: the pod's service account, else the default file."""
    identity: str = Field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    """Name of this operator in the Lease. Each operator needs another name."""
    lease_namespace: str | None = None
    """Namespace of the Lease; unset: the watched namespace if there is only one, else `default`."""
    lease_name: str = "kraftquorum-operator"
    """Name of the Lease. Of all operators with the same Lease, one is active at a time."""
    lease_duration_s: Annotated[float, Field(ge=1, le=600)] = 10.0
    """How long a Lease that is not renewed keeps other operators on standby. A longer time causes
    fewer needless takeovers; a shorter time allows a faster takeover after a crash."""
    reconcile_busy_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    """Pause between two reconciliations of a quorum that is changing or waits for a guard. A quorum
    that is paused, or that needs a person, is observed ever less often, down to
    `reconcile_idle_s` but at least every 30 s."""
    reconcile_idle_s: Annotated[float, Field(ge=1, le=3600)] = 10.0
    """Pause between two reconciliations of a quorum with nothing left to do; a change that the
    operator notices ends the pause."""
    kube_timeout_s: Annotated[float, Field(ge=0.5, le=300)] = 10.0
    """How long one request to the Kubernetes API may take."""
    node_timeout_s: Annotated[float, Field(ge=0.2, le=60)] = 1.5
    """How long a replica may take to answer; a replica that takes longer counts as silent."""
    change_timeout_ms: Annotated[int, Field(ge=100, le=600_000)] = 5000
    """Deadline of a voter change: the leader does not append the change after it."""
    event_interval_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """How often the operator repeats the event of a guard that keeps blocking."""
    status_interval_s: Annotated[float, Field(ge=0, le=3600)] = 5.0
    """The operator writes a new message and, while a quorum has no leader, new offsets of its
    replicas into the status at most this often. It writes all other changes at once."""
    secrets_interval_s: Annotated[float, Field(ge=0, le=3600)] = 180.0
    """How old Secrets, objects of cert-manager and the cluster's keys may be that the operator uses
    for a quorum with nothing left to do. A change of the resource, also of an annotation, has the
    operator read them at once."""
    kafka_advice: bool = False
    """Check the controllers of Apache Kafka that KafkaQuorums name, and report advice in their
    status. The operator writes nothing to Kafka. It needs the CRD of KafkaQuorums."""
    kafka_check_interval_s: Annotated[float, Field(ge=1, le=3600)] = 30.0
    """Pause between two checks of the controllers of a KafkaQuorum. After checks without advice the
    pause grows, to two minutes at most."""
    kafka_timeout_s: Annotated[float, Field(ge=0.1, le=60)] = 5.0
    """How long each connection to a controller of Kafka, and each answer, may take. A whole check
    ends after six times as long."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port of `/metrics`; 0: none."""
    metrics_host: str = "127.0.0.1"
    """Addresses that `/metrics` listens on, separated by commas; in a pod, `0.0.0.0`."""
    metrics_access: Literal["open", "authenticated"] = "open"
    """`open`: every client that reaches the port reads `/metrics`, over plain HTTP unless there is
    a certificate. `authenticated`: over TLS, with the token of an account to which a role allows
    `get` on `/metrics`; the operator asks the API server (TokenReview, SubjectAccessReview)."""
    metrics_certificate_file: str | None = None
    """Certificate of the metrics' server, with its chain, as PEM; the operator reads a renewed one
    within a minute. Unset: with `authenticated`, the operator makes certificates of its own."""
    metrics_key_file: str | None = None
    """Key of that certificate, as PEM."""
    page_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port of the status page and of `/status.json`; 0: none."""
    page_host: str = "127.0.0.1"
    """Addresses that the status page listens on, separated by commas. The page has no
    authentication and is read-only."""
    liveness_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port of `/healthz`; 0: none."""
    liveness_host: str = "0.0.0.0"
    """Address that `/healthz` listens on."""
    log_format: Literal["json", "text"] = "json"
    """`json`, or `text` for a terminal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that the operator logs."""
    exit_before_action: Annotated[int, Field(ge=0)] = 0
    """For tests: kill the operator with SIGKILL before the n-th action; 0: never."""
    stop_before_delete: Annotated[int, Field(ge=0)] = 0
    """For tests: stop the operator with SIGSTOP before the n-th DELETE, after the decision on it;
    0: never."""

    @field_validator("namespace")
    @classmethod
    def _are_namespaces(cls, given: str | None) -> str | None:
        for name in _split(given):
            if re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name) is None:
                msg = (
                    f"{name!r} is not the name of a namespace: it must have at most 63 lower-case "
                    "letters, digits and '-', and begin and end with a letter or digit"
                )
                raise ValueError(msg)
        return given

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces to watch, each once; empty: all."""
        return tuple(dict.fromkeys(_split(self.namespace)))

    @field_validator("node_image_pull_secrets")
    @classmethod
    def _are_names(cls, given: str | None) -> str | None:
        for name in _split(given):
            if re.fullmatch(OBJECT_NAME, name) is None:
                msg = f"{name!r} is not the name of a Secret"
                raise ValueError(msg)
        return given

    @model_validator(mode="after")
    def _has_certificate_and_key(self) -> Settings:
        if bool(self.metrics_certificate_file) != bool(self.metrics_key_file):
            raise ValueError(
                "KRAFTQUORUM_METRICS_CERTIFICATE_FILE and KRAFTQUORUM_METRICS_KEY_FILE belong "
                "together: set both or neither"
            )
        return self

    @property
    def installation(self) -> Installation:
        """What these settings decide for the objects of every quorum."""
        return Installation(
            namespace=self.pod_namespace or None,
            metrics_from=self.node_metrics_from,
            pull_secrets=tuple(dict.fromkeys(_split(self.node_image_pull_secrets))),
            user_id=NODE_USER_ID if self.node_user == "fixed" else None,
            cluster_domain=self.cluster_domain,
            node_image=self.node_image,
        )

    @property
    def metrics_certificate(self) -> CertificateFiles | None:
        """Files of the metrics' server; None: there are none."""
        certificate, key = self.metrics_certificate_file, self.metrics_key_file
        return CertificateFiles(Path(certificate), Path(key)) if certificate and key else None

    @property
    def lease_place(self) -> str:
        """Namespace of the Lease."""
        only = self.namespaces[0] if len(self.namespaces) == 1 else "default"
        return self.lease_namespace or only


def _split(given: str | None) -> list[str]:
    return [part.strip() for part in (given or "").split(",") if part.strip()]


def load_settings(**given: object) -> Settings:
    """Read the settings; an argument that is not None overrides the environment.

    Raises:
        SettingsError: a value is not allowed; names the setting.
    """
    try:
        return Settings.model_validate(
            Settings().model_dump()
            | {key: value for key, value in given.items() if value is not None}
        )
    except UnparsedSettingsError as error:
        msg = f"{error}: KRAFTQUORUM_NODE_METRICS_FROM must be a JSON list"
        raise SettingsError(msg) from error
    except ValidationError as error:
        first = error.errors()[0]
        name = "KRAFTQUORUM_" + "_".join(str(part) for part in first["loc"]).upper()
        msg = f"{name}: {first['msg']}, not {first['input']!r}"
        raise SettingsError(msg) from error
