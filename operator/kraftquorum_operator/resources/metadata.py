"""What all bodies share: labels, owner, digest."""

from __future__ import annotations

import hashlib
import json
from typing import cast

from kraftquorum_operator import names
from kraftquorum_operator.model.objects import Body, Owner


def selector(owner: Owner) -> dict[str, str]:
    """Labels that select the pods of one quorum."""
    return {names.LABEL_APP: names.APP, names.LABEL_INSTANCE: owner.name}


def metadata(owner: Owner, name: str) -> Body:
    """Metadata of an object that goes with its resource."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": {**selector(owner), names.LABEL_MANAGED_BY: names.MANAGER},
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": owner.name,
                "uid": owner.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def digest(body: Body) -> str:
    """A short digest of a body, to detect that the operator must write it again."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stamped(body: Body) -> Body:
    """The body with its own digest as an annotation."""
    given = cast("dict[str, str]", body["metadata"].get("annotations") or {})
    annotations = given | {names.ANNOTATION_HASH: digest(body)}
    return body | {"metadata": body["metadata"] | {"annotations": annotations}}
