"""Restarts of containers, from the status of made-up pods."""

from typing import Any

import pytest

from kraftquorum_demo.restarts import PodRestarts, exit_code_words
from kraftquorum_devcluster.errors import ApiError


def pod(uid: str, restarts: int, exit_code: int | None = None) -> dict[str, Any]:
    last = {} if exit_code is None else {"terminated": {"exitCode": exit_code}}
    status = {"name": "raftnode", "restartCount": restarts, "lastState": last}
    return {
        "metadata": {"name": "demo-1", "uid": uid},
        "status": {"containerStatuses": [status]},
    }


def restarts() -> PodRestarts:
    return PodRestarts(None, "/pods", lambda _: None)


def test_each_restart_is_reported_once_with_what_ended_and_how():
    seen = restarts()
    assert seen.observe([pod("a", 0)]) == []
    killed = "pod demo-1: raftnode ended with exit code 137 (SIGKILL) and was restarted (restart 1)"
    assert seen.observe([pod("a", 1, 137)]) == [killed]
    assert seen.observe([pod("a", 1, 137)]) == []
    lost = (
        "pod demo-1: raftnode ended with exit code 11 (STORAGE_LOST) and was restarted (restart 2)"
    )
    assert seen.observe([pod("a", 2, 11)]) == [lost]


def test_a_new_pod_of_the_same_name_is_no_restart():
    seen = restarts()
    seen.observe([pod("a", 3, 137)])
    assert seen.observe([pod("b", 0)]) == []
    assert len(seen.observe([pod("b", 1, 137)])) == 1


def test_a_pod_without_a_status_and_an_ending_without_its_code_are_taken_as_they_are():
    seen = restarts()
    assert seen.observe([{"metadata": {"name": "demo-1", "uid": "a"}}]) == []
    assert seen.observe([pod("a", 1)]) == [
        "pod demo-1: raftnode ended and was restarted (restart 1)"
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exit code 0 (OK)"),
        (18, "exit code 18 (STORAGE_STALLED)"),
        (137, "exit code 137 (SIGKILL)"),
        (99, "exit code 99"),
        (255, "exit code 255 (signal 127)"),
    ],
)
def test_exit_codes_have_names(code, words):
    assert exit_code_words(code) == words


class Away:
    """An API server that is away at first."""

    def __init__(self) -> None:
        self.asked = 0

    async def get(self, path: str) -> dict[str, Any]:
        assert path == "/pods"
        self.asked += 1
        if self.asked == 1:
            raise ApiError(503, "ServiceUnavailable", "away")
        return {"items": [pod("a", 1, 137)]}


async def test_an_api_server_that_is_away_is_asked_again(monkeypatch):
    monkeypatch.setattr("kraftquorum_demo.restarts._EVERY_S", 0.0)

    class EnoughError(Exception):
        pass

    def say(text: str) -> None:
        raise EnoughError(text)

    with pytest.raises(EnoughError, match="demo-1"):
        await PodRestarts(Away(), "/pods", say).run()
