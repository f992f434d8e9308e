"""Which cluster the suite takes."""

import pytest

from kraftquorum_devcluster.e2e import ground
from kraftquorum_devcluster.e2e.ground import Choice, Tags, choose
from kraftquorum_devcluster.errors import NotRunningError


@pytest.mark.parametrize("choice", list(Choice))
def test_what_is_asked_for_is_taken(choice):
    assert choose({"CLUSTER": str(choice)}) is choice


@pytest.mark.parametrize(("works", "choice"), [(True, Choice.KIND), (False, Choice.KUBELET)])
def test_kind_is_taken_where_it_can_be_had_else_our_own_nodes(monkeypatch, works, choice):
    monkeypatch.setattr(ground, "_kind_works", lambda: works)
    assert choose({}) is choice


def test_a_cluster_that_nobody_knows_is_refused():
    with pytest.raises(NotRunningError, match="current, kind, kubelet"):
        choose({"CLUSTER": "cloud"})


def test_images_are_named_by_target_and_tag():
    tags = Tags(registry="registry/here")
    assert tags.image("node", tags.next) == "registry/here/node:e2e-next"
    with pytest.raises(ValueError, match="node, operator"):
        tags.image("client", "e2e")
