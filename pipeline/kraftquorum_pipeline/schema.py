"""The columns of the data source `kraftquorum`, as Arrow has them; Spark's are made from these.

Offsets and epochs are of the log. The `kind` of a row says which other columns are filled:

* `data`: a client's record, with `key`, `value` and `headers`;
* `control`: a record of the quorum's own, named by `control`, its `fields` as JSON in the
  form of the HTTP API; `key` and `value` hold its bytes if the source is files;
* `state`: an entry of a snapshot, if the log was trimmed: `key`, `value`, and the offset and
  epoch of the record that wrote it; no timestamp. One more row has `control` = `VoterSet`, and in
  `fields` the voters as the records up to `as_of` made them;
* `corrupt`: records that could not be read and were left out because the options say so; `offset`
  is the first of them, `fields` has their place and the reason.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(
    pa.struct([pa.field("name", pa.string(), nullable=False), pa.field("value", pa.binary())])
)

COLUMNS: Final = {
    "cluster_id": "The cluster id; null in the files of a node that was never formed.",
    "offset": "Offset of the record.",
    "epoch": "Epoch of the leader that wrote it.",
    "timestamp": "Time of the leader's clock at the batch, in milliseconds, UTC.",
    "kind": "`data`, `control`, `state` or `corrupt`.",
    "key": "Bytes of the key, or a string by `keyFormat`; null: no key.",
    "value": "Bytes of the value, or a string by `valueFormat`; null: a delete.",
    "headers": "Names and values of the record's headers; only from files.",
    "control": "Kind of the control record, such as `LeaderChange` or `AddVoter`; in a `state`, "
    "`VoterSet`: the voters at that offset.",
    "fields": "JSON: the fields of a control record; the place and reason of a corrupt record; "
    "the voters of a `VoterSet`, and `as_of`, the record up to which they were read.",
}
"""What each column means; the reference page is made from it."""


def log_schema(*, key_text: bool = False, value_text: bool = False) -> pa.Schema:
    """The Arrow schema of the rows.

    Args:
        key_text: keys are strings and not bytes.
        value_text: values are strings and not bytes.
    """
    return pa.schema(
        [
            pa.field("cluster_id", pa.string()),
            pa.field("offset", pa.int64(), nullable=False),
            pa.field("epoch", pa.int32(), nullable=False),
            pa.field("timestamp", TIMESTAMP),
            pa.field("kind", pa.string(), nullable=False),
            pa.field("key", pa.string() if key_text else pa.binary()),
            pa.field("value", pa.string() if value_text else pa.binary()),
            pa.field("headers", HEADERS),
            pa.field("control", pa.string()),
            pa.field("fields", pa.string()),
        ]
    )
