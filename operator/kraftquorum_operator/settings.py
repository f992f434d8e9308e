"""Settings of the operator, from the command line or `KRAFTQUORUM_*` variables.

docs/reference/operator-settings.md is generated from the descriptions here.
"""

from __future__ import annotations

import os
import socket
from typing import Annotated, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from kraftquorum_operator.errors import SettingsError


class Settings(BaseSettings):
    """All settings; each one's unit is the end of its name."""

    model_config = SettingsConfigDict(
        env_prefix="KRAFTQUORUM_",
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )

    namespace: str | None = None
    """Namespace to watch; unset: all namespaces."""
    kubeconfig: str | None = None
    """Kubeconfig file; unset: the pod's service account, else the default file."""
    identity: str = Field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    """Name of this operator in the Lease; must differ between operators."""
    lease_namespace: str | None = None
    """Namespace of the Lease; unset: the watched namespace, else `default`."""
    lease_name: str = "kraftquorum-operator"
    """Name of the Lease. Operators with the same one take turns."""
    lease_duration_s: Annotated[float, Field(ge=1, le=600)] = 10.0
    """How long a Lease that is not renewed keeps others out. Longer: fewer needless takeovers;
    shorter: a quicker one after a crash."""
    reconcile_busy_s: Annotated[float, Field(ge=0.1, le=60)] = 1.0
    """Pause between two looks while something is in flight."""
    reconcile_idle_s: Annotated[float, Field(ge=1, le=3600)] = 10.0
    """Pause between two looks when nothing is left to do; events wake it earlier."""
    kube_timeout_s: Annotated[float, Field(ge=0.5, le=300)] = 10.0
    """How long one request to the Kubernetes API may take."""
    node_timeout_s: Annotated[float, Field(ge=0.2, le=60)] = 1.5
    """How long a replica may take to say how it is; a longer one counts as silent."""
    change_timeout_ms: Annotated[int, Field(ge=100, le=600_000)] = 5000
    """Deadline that a voter change carries (S11): after it, it is not appended any more."""
    event_interval_s: Annotated[float, Field(ge=0, le=86_400)] = 60.0
    """A guard that goes on blocking is told again as an event after this long."""
    status_interval_s: Annotated[float, Field(ge=0, le=3600)] = 5.0
    """Offsets and lags in the status are written at most this often; all else at once."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port of `/metrics`; 0: none."""
    metrics_host: str = "127.0.0.1"
    """Address that `/metrics` listens on; in a pod, `0.0.0.0`."""
    liveness_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port of `/healthz`; 0: none."""
    log_format: Literal["json", "text"] = "json"
    """`json` for machines, `text` for a terminal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged."""
    exit_before_action: Annotated[int, Field(ge=0)] = 0
    """For tests: end by SIGKILL before the n-th action; 0: never."""
    stop_before_delete: Annotated[int, Field(ge=0)] = 0
    """For tests: stop by SIGSTOP before the n-th DELETE, when it is already decided; 0: never."""

    @property
    def lease_place(self) -> str:
        """Namespace that the Lease is in."""
        return self.lease_namespace or self.namespace or "default"


def load_settings(**given: object) -> Settings:
    """Read the settings; what is given and not None wins over the environment.

    Raises:
        SettingsError: a value that cannot work, with the setting's name.
    """
    try:
        return Settings.model_validate(
            Settings().model_dump()
            | {key: value for key, value in given.items() if value is not None}
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = "KRAFTQUORUM_" + "_".join(str(part) for part in first["loc"]).upper()
        msg = f"{name}: {first['msg']}, not {first['input']!r}"
        raise SettingsError(msg) from error
