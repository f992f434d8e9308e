"""What can go wrong in devcluster, as a tree of exceptions.

```
DevClusterError
├── BuildError(step, hint)        making kube-apiserver, etcd and the others
│   ├── ToolchainError            no Go, and none to be had for this platform
│   ├── DownloadError             modules or wheels could not be fetched
│   ├── DiskSpaceError            not enough room for the build
│   └── CompileError              the compiler failed
├── ImageError(step, detail)       building a container image
├── StartError(component)         a part of the cluster did not come up
├── AlreadyRunningError           the state directory belongs to a living cluster
├── NotRunningError               there is no living cluster in the state directory
├── UnknownPodError               the process node runs no such pod
├── CommandError(exit_code)       kubectl or kind ended with an error
├── ApiError(status, reason)      the API server answered with a Status
├── UnsupportedPodError           the process node cannot run this pod as written
└── NotReadyToRunError            it can, but something it names is not there yet
```
"""

OTHER_WAYS = (
    "Other ways, without a build here: `CLUSTER=current devcluster up` takes the cluster that "
    "your kubeconfig points to, `CLUSTER=kind devcluster up` one made by the `kind` program. "
    "The demo and the tests wipe disks, so they run only on the cluster that is built here."
)


class DevClusterError(Exception):
    """Base of every error that this package raises on purpose."""


class BuildError(DevClusterError):
    """A step of making the binaries failed.

    Attributes:
        step: What was being done, in words for people.
        detail: What went wrong.
    """

    def __init__(self, step: str, detail: str) -> None:
        self.step = step
        self.detail = detail
        super().__init__(f"devcluster build, step “{step}”: {detail}\n{OTHER_WAYS}")


class ToolchainError(BuildError):
    """There is no usable Go, and no wheel of it for this platform."""


class DownloadError(BuildError):
    """Go modules or a wheel could not be fetched."""


class DiskSpaceError(BuildError):
    """The disk has, or had, too little room."""


class CompileError(BuildError):
    """The Go compiler or linker failed."""


class ImageError(DevClusterError):
    """A step of building a container image failed.

    Attributes:
        step: What was being done, in words for people.
        detail: What went wrong, and what to do.
    """

    def __init__(self, step: str, detail: str) -> None:
        self.step = step
        self.detail = detail
        super().__init__(f"image build, step “{step}”: {detail}")


class StartError(DevClusterError):
    """A part of the cluster did not become ready.

    Attributes:
        component: Which part.
    """

    def __init__(self, component: str, detail: str) -> None:
        self.component = component
        super().__init__(f"{component} did not start: {detail}")


class AlreadyRunningError(DevClusterError):
    """Another cluster lives in this state directory."""


class NotRunningError(DevClusterError):
    """No cluster lives in this state directory."""


class UnknownPodError(DevClusterError):
    """The process node runs no pod of this name."""


class CommandError(DevClusterError):
    """A program ended with an error.

    Attributes:
        exit_code: Its exit code.
        stderr: What it said.
    """

    def __init__(self, command: str, exit_code: int, stderr: str) -> None:
        self.exit_code = exit_code
        self.stderr = stderr
        super().__init__(f"`{command}` ended with exit code {exit_code}: {stderr.strip()}")


class ApiError(DevClusterError):
    """The API server refused a request.

    Attributes:
        status: HTTP status.
        reason: Kubernetes reason, for example ``AlreadyExists``.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(f"{status} {reason}: {message}")


class UnsupportedPodError(DevClusterError):
    """The pod uses something that the process node does not emulate."""


class NotReadyToRunError(DevClusterError):
    """A container cannot start yet: a volume, ConfigMap or Secret is missing.

    Attributes:
        reason: The waiting reason that the container's status shows.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)
