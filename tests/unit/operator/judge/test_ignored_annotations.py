"""Annotations without effect: what is reported, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.judge.ignored_annotations import ignored_annotations
from kraftquorum_operator.model.certificates import AuthoritySecret, Certificates, KeyStore
from kraftquorum_operator.model.spec import QuorumSpec

RENEW, ROTATE = names.ANNOTATION_RENEW, names.ANNOTATION_ROTATE_CA
ASKED = {RENEW: "1", ROTATE: "2", "other": "3"}
SECRET, CERT_MANAGER, MANAGED, DISABLED = (
    {"mode": "Secret", "secretName": "mine"},
    {"mode": "CertManager", "issuerRef": {"name": "ours"}},
    {"mode": "Managed"},
    {"mode": "Disabled"},
)


def spec(tls: dict[str, Any]) -> QuorumSpec:
    return QuorumSpec.model_validate({"voters": 3, "tls": tls})


def said(
    tls: dict[str, Any], facts: Certificates | None = None, **annotations: str
) -> dict[str, str]:
    troubles = ignored_annotations(spec(tls), annotations or ASKED, facts)
    return {trouble.subject.removeprefix("annotation "): str(trouble) for trouble in troubles}


@pytest.mark.parametrize(
    ("tls", "ignored"),
    [
        (MANAGED, set()),
        (CERT_MANAGER, {ROTATE}),
        (SECRET, {RENEW, ROTATE}),
        (DISABLED, {RENEW, ROTATE}),
    ],
)
def test_an_annotation_is_reported_where_it_has_no_effect(
    tls: dict[str, Any], ignored: set[str]
) -> None:
    assert set(said(tls, Certificates(1))) == ignored
    assert set(said(tls)) == ignored
    assert said(tls, other="3") == {}


def test_the_report_says_what_to_do_instead() -> None:
    assert said(CERT_MANAGER)[ROTATE] == (
        "annotation kraftquorum.io/rotate-ca: AnnotationIgnored: spec.tls.mode is CertManager: "
        "replace the CA at the issuer of spec.tls.issuerRef, then set "
        "kraftquorum.io/renew-certificates, and remove the annotation"
    )
    assert "the Secret of spec.tls.secretName" in said(SECRET)[RENEW]


@pytest.mark.without(
    "kraftquorum_operator.judge.ignored_annotations:ignored_annotations",
    '{"", done.get(name)}',
    '{""}',
)
def test_what_an_earlier_mode_has_done_is_not_reported() -> None:
    nodes = KeyStore("uid", "1", marks=((RENEW, "1"),))
    facts = Certificates(1, authority=AuthoritySecret("uid", "1", rotation="2"), nodes=nodes)
    assert said(SECRET, facts) == {}
    assert set(said(SECRET, facts, **{RENEW: "2", ROTATE: "2"})) == {RENEW}
    assert said(SECRET, Certificates(1, unreadable="no right")) == {}
