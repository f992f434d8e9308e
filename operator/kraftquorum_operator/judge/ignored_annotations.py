"""Annotations of the resource that ask for what `spec.tls.mode` does not do. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kraftquorum_operator import names
from kraftquorum_operator.model.certificates import Certificates
from kraftquorum_operator.model.observation import Trouble
from kraftquorum_operator.model.spec import QuorumSpec

REASON = "AnnotationIgnored"

_NO_TLS = "there is no certificate to replace; set spec.tls.mode first"

_INSTEAD: Mapping[str, Mapping[str, str]] = {
    names.ANNOTATION_RENEW: {
        "Secret": "write new certificates into the Secret of spec.tls.secretName",
        "Disabled": _NO_TLS,
    },
    names.ANNOTATION_ROTATE_CA: {
        "Secret": "write another CA and new certificates into the Secret of spec.tls.secretName",
        "CertManager": (
            f"replace the CA at the issuer of spec.tls.issuerRef, then set {names.ANNOTATION_RENEW}"
        ),
        "Disabled": _NO_TLS,
    },
}
"""What a person does instead, by the annotation and the mode that ignores it."""


def ignored_annotations(
    spec: QuorumSpec, annotations: Mapping[str, str], facts: Certificates | None
) -> tuple[Trouble, ...]:
    """What a person asked for without effect, for events; not what an earlier mode has done.

    Args:
        spec: has the mode.
        annotations: of the resource.
        facts: the certificates; None: the quorum has none.
    """
    if facts is not None and facts.unreadable:
        return ()
    done: dict[str, str] = {}
    if facts is not None and facts.nodes is not None:
        done[names.ANNOTATION_RENEW] = dict(facts.nodes.marks).get(names.ANNOTATION_RENEW, "")
    if facts is not None and facts.authority is not None:
        done[names.ANNOTATION_ROTATE_CA] = facts.authority.rotation
    mode = spec.tls.mode
    return tuple(
        Trouble(
            0,
            f"annotation {name}",
            REASON,
            f"spec.tls.mode is {mode}: {instead[mode]}, and remove the annotation",
        )
        for name, instead in _INSTEAD.items()
        if mode is not None
        and mode in instead
        and annotations.get(name, "") not in {"", done.get(name)}
    )
