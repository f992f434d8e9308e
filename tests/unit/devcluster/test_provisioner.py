import copy
from pathlib import Path

import pytest

from kraftquorum_devcluster.processnode.provisioner import (
    STORAGE_CLASS_OBJECT,
    is_garbage,
    volume_object,
    wants_growth,
    wants_volume,
)
from kraftquorum_devcluster.processnode.volumes import VolumeStore, claim_dir

CLAIM = {
    "metadata": {
        "name": "data-0",
        "namespace": "ns",
        "uid": "u1",
        "annotations": {"volume.kubernetes.io/selected-node": "devcluster"},
    },
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def claim(**metadata):
    changed = copy.deepcopy(CLAIM)
    changed["metadata"].update(metadata)
    return changed


def test_claim_is_ours_once_the_node_was_selected():
    assert wants_volume(CLAIM, STORAGE_CLASS_OBJECT)
    assert not wants_volume(claim(annotations={}), STORAGE_CLASS_OBJECT)
    immediate = {**STORAGE_CLASS_OBJECT, "volumeBindingMode": "Immediate"}
    assert wants_volume(claim(annotations={}), immediate)


def test_foreign_bound_or_dying_claims_are_left_alone():
    assert not wants_volume(CLAIM, None)
    assert not wants_volume(CLAIM, {**STORAGE_CLASS_OBJECT, "provisioner": "another.provisioner"})
    assert not wants_volume(claim(deletionTimestamp="t"), STORAGE_CLASS_OBJECT)
    bound = copy.deepcopy(CLAIM)
    bound["spec"]["volumeName"] = "pv"
    assert not wants_volume(bound, STORAGE_CLASS_OBJECT)


def test_a_bound_claim_grows_if_its_class_allows_it():
    grown = {**CLAIM, "status": {"phase": "Bound", "capacity": {"storage": "512Mi"}}}
    allowing = {**STORAGE_CLASS_OBJECT, "allowVolumeExpansion": True}
    assert wants_growth(grown, allowing)
    assert not wants_growth(grown, STORAGE_CLASS_OBJECT)
    assert not wants_growth(grown, {**allowing, "provisioner": "another.provisioner"})
    assert not wants_growth(grown, {**allowing, "parameters": {"ownFileSystem": "true"}})
    assert not wants_growth(CLAIM, allowing)
    has_it = {**CLAIM, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    assert not wants_growth(has_it, allowing)


def test_volume_names_its_claim_by_uid():
    volume = volume_object(CLAIM, STORAGE_CLASS_OBJECT, Path("/x"), "devcluster")
    assert volume["spec"]["claimRef"]["uid"] == "u1"
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


@pytest.mark.parametrize(
    ("phase", "policy", "annotated", "garbage"),
    [
        ("Released", "Delete", True, True),
        ("Bound", "Delete", True, False),
        ("Released", "Retain", True, False),
        ("Released", "Delete", False, False),
    ],
)
def test_only_our_released_volumes_are_removed(phase, policy, annotated, garbage):
    volume = volume_object(
        CLAIM, {**STORAGE_CLASS_OBJECT, "reclaimPolicy": policy}, Path("/x"), "devcluster"
    )
    volume["status"] = {"phase": phase}
    if not annotated:
        volume["metadata"]["annotations"] = {}
    assert is_garbage(volume) is garbage


def test_store_links_the_claim_to_its_newest_volume(tmp_path):
    store = VolumeStore(tmp_path / "volumes")
    old = store.create("pvc-1", "ns", "data")
    assert claim_dir(tmp_path, "ns", "data") == old
    new = store.create("pvc-2", "ns", "data")
    (old / "file").write_text("x")
    old.chmod(0o500)
    store.remove("pvc-1", "ns", "data")
    assert not old.exists()
    assert claim_dir(tmp_path, "ns", "data") == new
    store.remove("pvc-2", "ns", "data")
    assert claim_dir(tmp_path, "ns", "data") is None
    assert store.owns(new)
    assert not store.owns(tmp_path)
