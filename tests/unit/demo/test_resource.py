"""The resource as the API server gives it."""

from kraftquorum_demo.resource import Resource


def body(generation: int = 1, **status: object) -> dict:
    return {
        "metadata": {"generation": generation},
        "spec": {"voters": 3},
        "status": {"observedGeneration": 1, "phase": "Running", "replicas": 3, **status},
    }


def test_the_guard_that_is_waited_on_comes_before_the_action():
    found = Resource.of(
        body(currentAction="AddVoter 3", waitingFor="node_answers", message="pod is Pending")
    )
    assert found.doing == "waits on node_answers: pod is Pending"
    assert Resource.of(body(currentAction="AddVoter 3", message="…")).doing == "AddVoter 3"
    assert Resource.of(body(message="3 voters, all caught up")).doing == "3 voters, all caught up"


def test_a_resource_without_a_status_has_not_been_looked_at():
    found = Resource.of({"metadata": {"generation": 1}, "spec": {}})
    assert found.doing == "has not looked yet"
    assert not found.settled


def test_settled_means_about_the_newest_spec():
    assert Resource.of(body()).settled
    assert not Resource.of(body(generation=2)).settled
    assert not Resource.of(body(phase="Waiting")).settled


def test_paths_in_messages_are_shown_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Resource.of(body(message=f"{tmp_path}/build/x is gone")).doing == "build/x is gone"
