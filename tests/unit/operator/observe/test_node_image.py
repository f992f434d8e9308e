"""The image of a quorum: what an upgrade of the operator changes, and what it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraftquorum_operator import names
from kraftquorum_operator.model.installation import Installation
from kraftquorum_operator.model.objects import Owner
from kraftquorum_operator.model.observation import StatefulSet
from kraftquorum_operator.observe.kube import read_statefulset
from kraftquorum_operator.observe.node_image import next_image_of, node_image_of
from kraftquorum_operator.plan.compare import compare
from kraftquorum_operator.resources.statefulset import with_template_of
from proofkit.operatorworld.observations import UID, healthy, spec

OWNER = Owner("test", "demo", UID)
SET = StatefulSet("set-1", "7", 3, image="node:1")


@pytest.mark.without(
    "kraftquorum_operator.observe.node_image:node_image_of",
    "spec.image or kept or default",
    "spec.image or default",
)
def test_a_changed_default_leaves_a_quorum_as_it_is() -> None:
    assert node_image_of(spec(), SET, "node:2") == "node:1"
    assert next_image_of(spec(), SET, "node:2") is None


def test_a_quorum_that_follows_the_default_gets_it_when_it_is_its_turn() -> None:
    follows = spec(imageUpdates="Automatic")
    assert node_image_of(follows, SET, "node:2") == "node:1"
    assert next_image_of(follows, SET, "node:2") == "node:2"
    assert next_image_of(follows, SET, "node:1") is None
    assert next_image_of(follows, None, "node:2") is None
    own = spec(image="mine:1", imageUpdates="Automatic")
    assert next_image_of(own, SET, "node:2") is None


def test_a_new_quorum_has_the_default_and_the_image_of_the_spec_counts_at_once() -> None:
    assert node_image_of(spec(), None, "node:2") == "node:2"
    assert node_image_of(spec(image="mine:1"), SET, "node:2") == "mine:1"


def made(image: str | None = None, *, named: bool = False):
    facts = replace(healthy(), name="demo", namespace="test", image_named=named)
    installed = Installation(node_image="node:2")
    bodies = compare(OWNER, spec(image=image), facts, [], installed).bodies
    (body,) = (body for ref, body in bodies.items() if ref.kind == "StatefulSet")
    return body | {"metadata": body["metadata"] | {"uid": "u", "resourceVersion": "1"}}


def read_image(body) -> str | None:
    statefulset = read_statefulset(body)
    assert statefulset is not None
    return statefulset.image


def test_the_image_is_noted_so_that_a_change_by_hand_is_not_taken_for_it() -> None:
    body = made("mine:1")
    assert body["metadata"]["annotations"][names.ANNOTATION_NODE_IMAGE] == "mine:1"
    assert read_image(made()) == "node:2"
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "by-hand:9"
    assert read_image(body) == "mine:1"


@pytest.mark.without(
    "kraftquorum_operator.observe.kube:_kept_image",
    'notes.get(names.ANNOTATION_IMAGE_OF) == "spec"',
    "False",
)
def test_an_image_that_the_resource_named_is_not_kept_once_it_is_taken_back() -> None:
    """It may be a wrong one."""
    live = read_statefulset(made("wrong:1", named=True))
    assert node_image_of(spec(), live, "node:2") == "node:2"
    assert node_image_of(spec(image="mine:1"), live, "node:2") == "mine:1"
    assert node_image_of(spec(), read_statefulset(made("node:1")), "node:2") == "node:1"


def test_a_statefulset_of_an_older_operator_keeps_the_image_of_its_template() -> None:
    body = made("mine:1")
    for note in (names.ANNOTATION_NODE_IMAGE, names.ANNOTATION_IMAGE_OF):
        del body["metadata"]["annotations"][note]
    assert read_image(body) == "mine:1"


def test_a_template_that_stays_keeps_its_note() -> None:
    """While nodes would refuse the settings, the template stays, and so does its image."""
    live, wanted = made("mine:1"), made("mine:2")
    kept = with_template_of(wanted, live)
    assert read_image(kept) == "mine:1"
