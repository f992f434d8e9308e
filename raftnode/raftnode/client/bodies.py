"""Requests and answers as models: what goes into a call, what is read from its answer."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from raftnode.api.media import HEADER_EPOCH, HEADER_OFFSET
from raftnode.api.model import ApiModel
from raftnode.client.errors import OutcomeUnknownError, UnexpectedAnswerError
from raftnode.client.exchange import Answer, Call
from raftnode.client.values import Value

ModelT = TypeVar("ModelT", bound=ApiModel)


def post(path: str, request: ApiModel) -> Call:
    """A write whose body is a model."""
    return Call("POST", path, request.model_dump_json().encode(), write=True)


def key_path(key: str) -> str:
    """The path of a key, whatever is in it."""
    return f"/v1/kv/{quote(key, safe='')}"


def decode(answer: Answer, model: type[ModelT]) -> ModelT:
    """Read the answer of a read.

    Raises:
        UnexpectedAnswerError: it is not that model.
    """
    try:
        return answer.decode(model)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        raise UnexpectedAnswerError(
            f"{answer.endpoint} did not answer with a valid {model.__name__}: {fault['loc']}: "
            f"{fault['msg']}"
        ) from None


def decode_write(answer: Answer, model: type[ModelT]) -> ModelT:
    """Read the answer of a write: one that cannot be read may come from no node of the quorum.

    Raises:
        OutcomeUnknownError: it is not that model.
    """
    try:
        return decode(answer, model)
    except UnexpectedAnswerError as error:
        raise OutcomeUnknownError("the write", str(error), endpoint=answer.endpoint) from None


def decode_value(answer: Answer) -> Value:
    """Read a key's value: the body, with its place in the headers.

    Raises:
        UnexpectedAnswerError: the headers are missing or no numbers.
    """
    try:
        return Value(
            answer.body, int(answer.headers[HEADER_OFFSET]), int(answer.headers[HEADER_EPOCH])
        )
    except (KeyError, ValueError) as error:
        raise UnexpectedAnswerError(f"{answer.endpoint}: no {error}") from None
