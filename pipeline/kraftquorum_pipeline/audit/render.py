"""Prints a verdict as text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from .findings import Check, Verdict

_SHOWN = 10
_MEANINGS = {
    Check.READABLE: "batches and records decode",
    Check.CRC: "every checksum is right",
    Check.OFFSETS: "no offset is missing or occurs twice",
    Check.EPOCHS: "epochs never go back",
    Check.LOG_MATCHING: "same offset and epoch, same bytes",
    Check.COMMITTED_PREFIX: "a majority has the committed records",
    Check.ONE_LEADER: "an epoch has one leader",
    Check.VOTER_SETS: "voters change one at a time",
    Check.SNAPSHOTS: "snapshots have the state that the log leads to",
    Check.IDENTITY: "a directory id is of one directory",
}


def verdict_lines(verdict: Verdict) -> Iterator[str]:
    """Yield what the audit read, each check, the first divergence, and the rest in short."""
    done = verdict.checked
    yield (
        f"{done.get('replicas', 0)} replicas, {done.get('segments', 0)} segments, "
        f"{done.get('snapshots', 0)} snapshots: {done.get('bytes', 0)} bytes in "
        f"{done.get('batches', 0)} batches, {done.get('records', 0)} records; committed up to "
        f"offset {verdict.committed_end}"
    )
    yield ""
    for name, replica in verdict.replicas.items():
        role = "voter" if replica["voter"] else ""
        yield (
            f"  {name:<14} {replica['replica'] or 'not known':<26} {role:<6} offsets "
            f"{replica['start_offset']} to {replica['end_offset']}, epoch {replica['last_epoch']}"
        )
    yield ""
    for check, meaning in _MEANINGS.items():
        count = verdict.counts.get(check, 0)
        word = f"FOUND {count}" if count else "ok"
        if check is Check.SNAPSHOTS and not count and not done.get("snapshots", 0):
            word = "none"
        yield f"  {word:>10}  {check:<17} {meaning}"
    for title, lines in (("note", verdict.notes), ("not checked", verdict.unchecked)):
        for line in lines:
            yield f"  {title:>11}: {line}"
    if verdict.findings:
        yield ""
        yield "The first divergence:"
        yield from (f"  {line}" for line in verdict.findings[0].lines())
    if len(verdict.findings) > 1:
        total = sum(verdict.counts.values())
        yield ""
        yield f"The others ({min(_SHOWN, len(verdict.findings) - 1)} of {total - 1}):"
        for finding in verdict.findings[1 : _SHOWN + 1]:
            yield from (f"  {line}" for line in finding.lines())
    yield ""
    yield {
        "ok": "The replicas agree.",
        "incomplete": (
            "No fault was found in what could be checked. Some of it could not be checked."
        ),
        "damaged": "THE REPLICAS DO NOT AGREE, or are damaged: see above.",
    }[verdict.word]
