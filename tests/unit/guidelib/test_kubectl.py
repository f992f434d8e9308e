"""How the reader's kubectl takes a command line apart."""

from __future__ import annotations

import pytest

from guidelib.kubectl import split


@pytest.mark.parametrize(
    ("line", "words", "command"),
    [
        ("exec -i demo-0 -- raftnode kv list", ["exec", "demo-0"], ["raftnode", "kv", "list"]),
        (
            "exec -n a demo-0 -- raftnode kv put -- key",
            ["exec", "demo-0"],
            "raftnode kv put -- key",
        ),
        ("-n a port-forward pod/demo-0 9080", ["port-forward", "pod/demo-0", "9080"], []),
        ("get pods --namespace a", ["get", "pods"], []),
    ],
)
def test_flags_are_no_words_and_the_rest_is_for_the_pod(
    line: str, words: list[str], command: list[str] | str
) -> None:
    expected = command.split() if isinstance(command, str) else command
    assert split(line.split()) == (words, expected)
