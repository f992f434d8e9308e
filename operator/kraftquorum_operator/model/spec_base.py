"""What all models of the resource's `spec` share: their spelling, and how they carry CEL rules."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

Rule = dict[str, JsonValue]


def rules(*entries: Rule) -> dict[str, JsonValue]:
    """Attach CEL rules to a model: pairs of `rule` and `message`."""
    return {"x-kubernetes-validations": list(entries)}


class SpecModel(BaseModel):
    """Camel case outside, snake case inside; an unknown field is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )
