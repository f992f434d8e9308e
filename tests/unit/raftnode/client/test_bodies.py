"""What goes into a call and what is made of its answer."""

from __future__ import annotations

import json

import pytest

from raftnode.api.model import ResignRequest, VoterRecord
from raftnode.client.bodies import decode, decode_value, decode_write, key_path, post
from raftnode.client.errors import OutcomeUnknownError, UnexpectedAnswerError
from raftnode.client.exchange import Answer
from raftnode.client.values import Value
from raftnode.core.types import Endpoint

AT = Endpoint("a", 1)


def answer(body: object, **headers: str) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(AT, 200, {name.replace("_", "-"): value for name, value in headers.items()}, raw)


def test_a_post_is_a_write_with_its_model_as_json():
    call = post("/v1/quorum/resign", ResignRequest())
    assert (call.method, call.path, call.write) == ("POST", "/v1/quorum/resign", True)
    assert json.loads(call.body or b"") == {"preferred": None}
    assert call.content_type == "application/json"


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a", "a"),
        ("a/b", "a%2Fb"),
        ("?#%", "%3F%23%25"),
        ("ü ", "%C3%BC%20"),
        ("..", ".."),
        ("+", "%2B"),
    ],
)
def test_a_key_is_one_segment_of_the_path_whatever_is_in_it(key: str, path: str):
    assert key_path(key) == f"/v1/kv/{path}"


@pytest.mark.parametrize("body", [b"", b"OK", {"offset": "x", "epoch": 1}, {"offset": 1}])
def test_a_strange_answer_is_no_answer_to_a_read_and_leaves_a_write_unknown(body: object):
    with pytest.raises(UnexpectedAnswerError, match="a:1 did not answer with a valid VoterRecord"):
        decode(answer(body), VoterRecord)
    with pytest.raises(OutcomeUnknownError) as caught:
        decode_write(answer(body), VoterRecord)
    assert caught.value.endpoint == AT


def test_a_good_answer_is_read_for_both():
    good = answer({"offset": 4, "epoch": 2})
    assert decode(good, VoterRecord) == decode_write(good, VoterRecord)
    assert decode(good, VoterRecord) == VoterRecord(offset=4, epoch=2)


def test_a_value_has_its_place_in_the_headers():
    found = decode_value(answer(b"\x00\xff", Raft_Offset="7", Raft_Epoch="3"))
    assert found == Value(b"\x00\xff", 7, 3)


@pytest.mark.parametrize("headers", [{}, {"Raft_Offset": "7"}, {"Raft_Offset": "x"}])
def test_a_value_without_its_place_is_not_one_of_ours(headers: dict[str, str]):
    headers = {"Raft_Epoch": "3", **headers} if "Raft_Offset" not in headers else headers
    with pytest.raises(UnexpectedAnswerError):
        decode_value(answer(b"x", **headers))
