"""Reads a client's own account of its writes, one JSON object a line.

| field | what |
|---|---|
| `key` | a string, or null of a record without one |
| `value_sha256` | of the value's bytes, in hex; null: the key was deleted |
| `outcome` | `acknowledged`, `unknown` or `refused` |
| `offset` | where it was acknowledged |
| `started_ms`, `ended_ms` | when it was sent and answered, milliseconds since 1970, fractions too |

Other fields are ignored.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from kraftquorum_pipeline.errors import OptionError

SCHEMA = (
    "key string, value_sha256 string, outcome string, offset bigint, "
    "started_ms double, ended_ms double"
)


def read_account(session: SparkSession, path: Path) -> DataFrame:
    """Read the account as a table.

    Raises:
        OptionError: there is no such file.
    """
    if not path.is_file():
        raise OptionError(f"{path} does not exist; give an account of writes")
    return session.read.schema(SCHEMA).option("mode", "FAILFAST").json(str(path.absolute()))
