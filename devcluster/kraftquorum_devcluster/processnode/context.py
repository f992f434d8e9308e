"""What every part of the process node shares."""

from dataclasses import dataclass
from pathlib import Path

from kraftquorum_devcluster.apiclient import ApiClient

from .addresses import AddressBook
from .events import EventSink
from .hosts import HostsFiles

NODE_NAME = "devcluster"
PROVISIONER = "kraftquorum.dev/directory"
STORAGE_CLASS = "kraftquorum-local"


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Timing of the process node; seconds.

    Attributes:
        heartbeat_s: Lease and node status; the controller manager gives up on a
            node after 50.
        eager_probe_s: Longest pause between probes until the first success.
        backoff_first_s: Pause before the second restart (the first is at once);
            doubles each time. The real kubelet begins with 10.
        backoff_max_s: Longest pause.
        backoff_reset_s: A container that ran this long starts again without pause.
        force_grace_s: Grace of a pod that was deleted by force, as the kubelet's.
        shutdown_grace_s: Grace of all pods when the cluster stops.
        refresh_s: How often mounted ConfigMaps and Secrets are read again.
    """

    heartbeat_s: float = 10.0
    eager_probe_s: float = 0.2
    backoff_first_s: float = 0.2
    backoff_max_s: float = 5.0
    backoff_reset_s: float = 10.0
    force_grace_s: float = 2.0
    shutdown_grace_s: float = 2.0
    refresh_s: float = 10.0


@dataclass(frozen=True, slots=True)
class NodeContext:
    """Shared parts.

    Attributes:
        owner: Mark of every process that is started, see `processes`.
        host_ip: The node's own address.
    """

    api: ApiClient
    settings: NodeSettings
    addresses: AddressBook
    hosts: HostsFiles
    events: EventSink
    state_dir: Path
    owner: str
    host_ip: str

    @property
    def pods_dir(self) -> Path:
        """Working directories of pods, by uid; gone with the pod."""
        return self.state_dir / "pods"

    def pod_logs_dir(self, namespace: str, name: str, uid: str) -> Path:
        """Logs of a pod; they outlive it."""
        return self.state_dir / "logs" / "pods" / f"{namespace}_{name}_{uid}"
