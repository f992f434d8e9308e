"""How a node's pod runs: its user, and the Secrets for its image.

The pod meets the Pod Security Standard `restricted`. Without a user of ours it also meets
OpenShift's `restricted-v2`, which assigns user and group of each namespace and refuses others.
"""

from __future__ import annotations

from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.objects import Body
from kraftquorum_operator.model.spec import QuorumSpec


def security_context(installation: Installation) -> Body:
    """The pod's security context.

    The group owns the volume, so that the user may write. A cluster that assigns users assigns the
    group, too.
    """
    user = installation.user_id
    ids = {} if user is None else {"runAsUser": user, "runAsGroup": user, "fsGroup": user}
    return {
        "runAsNonRoot": True,
        **ids,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def pull_secrets(spec: QuorumSpec, installation: Installation) -> Body:
    """The pod's pull secrets: those of the resource, else those of the operator."""
    given = spec.image_pull_secrets
    chosen = installation.pull_secrets if given is None else [secret.name for secret in given]
    return {"imagePullSecrets": [{"name": name} for name in chosen]} if chosen else {}
