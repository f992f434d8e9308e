"""A report as a JSON file, with its schema beside it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError


class ReportError(ValueError):
    """A file is not a report of this version; the message names the field."""


class Strict(BaseModel):
    """A part of a report: every field is known, and every number finite."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ReportFile(Generic[Model]):
    """How reports of one kind are written and read.

    Attributes:
        model: a whole report.
        command: what makes such a report.
        version: of the model.
    """

    model: type[Model]
    command: str
    version: int

    def write(self, report: Model, path: Path) -> None:
        """Write a report, and its JSON schema beside it; the report is held against it first.

        Raises:
            ReportError: the report breaks the schema.
        """
        text = report.model_dump_json(indent=2) + "\n"
        self.parse(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        schema = json.dumps(self.model.model_json_schema(), indent=2) + "\n"
        path.with_suffix(".schema.json").write_text(schema, encoding="utf-8")

    def parse(self, text: str) -> Model:
        """Read a report, strictly.

        Raises:
            ReportError: it is not a report of this version; names each wrong field.
        """
        try:
            return self.model.model_validate_json(text)
        except ValidationError as error:
            wrong = (
                f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}"
                for fault in error.errors()
            )
            raise ReportError(
                f"no report of `{self.command}` (version {self.version}): {'; '.join(wrong)}; run "
                f"{self.command}"
            ) from error

    def read(self, path: Path) -> Model:
        """Read a report from a file.

        Raises:
            ReportError: there is none, or it is none.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise ReportError(f"{path} does not exist: run {self.command} first") from error
        return self.parse(text)
