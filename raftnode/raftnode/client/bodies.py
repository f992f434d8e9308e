"""Requests and answers as models: what goes into a call, what is read from its answer."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

from pydantic import ValidationError

from raftnode.api.media import HEADER_EPOCH, HEADER_OFFSET
from raftnode.api.model import ApiModel, Appended, ReadResult
from raftnode.client.errors import OutcomeUnknownError, UnexpectedAnswerError
from raftnode.client.exchange import Answer, Call
from raftnode.client.values import LogPage, Value
from raftnode.errors import DecodeError
from raftnode.session import answers
from raftnode.session.answers import AnswerKind

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


def decode_appended(answer: Answer) -> Appended:
    """Read the answer of an append, a put or a delete.

    Raises:
        OutcomeUnknownError: it is not what the API promises.
    """
    if answer.result is None:
        return decode_write(answer, Appended)
    try:
        _expect(answer.result, AnswerKind.WRITTEN)
        written = answers.decode_written(answer.result.body)
    except DecodeError as error:
        raise OutcomeUnknownError("the write", str(error), endpoint=answer.endpoint) from None
    # Not validated: integers of the right width are all that it can be.
    return Appended.model_construct(
        base_offset=written.base_offset, last_offset=written.last_offset, epoch=written.epoch
    )


def decode_value(answer: Answer) -> Value | None:
    """Read a key's value; None: it has none.

    Raises:
        UnexpectedAnswerError: it is not what the API promises.
    """
    if answer.result is None:
        return _value_of_body(answer)
    if answer.result.kind == AnswerKind.NO_VALUE:
        return None
    try:
        _expect(answer.result, AnswerKind.VALUE)
        value = answers.decode_value(answer.result.body)
    except DecodeError as error:
        raise UnexpectedAnswerError(f"{answer.endpoint}: {error}") from None
    return Value(value.value, value.offset, value.epoch)


def decode_page(answer: Answer) -> LogPage:
    """Read a part of the log.

    Raises:
        UnexpectedAnswerError: it is not what the API promises.
    """
    if answer.result is None:
        return LogPage.of(decode(answer, ReadResult))
    try:
        _expect(answer.result, AnswerKind.RECORDS)
        return LogPage.of_session(answers.decode_records(answer.result.body))
    except (DecodeError, ValueError) as error:
        raise UnexpectedAnswerError(f"{answer.endpoint}: {error}") from None


def _expect(answer: answers.Answer, kind: AnswerKind) -> None:
    if answer.kind != kind:
        raise DecodeError(f"answered with kind {answer.kind}; expected {kind} ({kind.name})")


def _value_of_body(answer: Answer) -> Value:
    """Read the body, with its place in the headers."""
    try:
        return Value(
            answer.body, int(answer.headers[HEADER_OFFSET]), int(answer.headers[HEADER_EPOCH])
        )
    except (KeyError, ValueError) as error:
        raise UnexpectedAnswerError(f"{answer.endpoint}: no {error}") from None
