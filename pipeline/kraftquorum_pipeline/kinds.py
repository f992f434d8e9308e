"""The kinds of rows of the data source; a reader of rows needs no Arrow for them."""

from __future__ import annotations

from typing import Final, Literal

Kind = Literal["data", "control", "state", "corrupt"]

KIND_DATA: Final = "data"
KIND_CONTROL: Final = "control"
KIND_STATE: Final = "state"
KIND_CORRUPT: Final = "corrupt"

VOTER_SET: Final = "VoterSet"
"""The value of `control` in the row of a state's voters."""
