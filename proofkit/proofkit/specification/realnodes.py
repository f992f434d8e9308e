"""Reads what traced nodes have written, and makes one trace of it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from proofkit.specification.recorder import Recorder, Trace
from proofkit.specification.sightings import Lost, Started
from proofkit.tracednode import Line


def trace_of(files: list[Path]) -> Trace:
    """The trace of a quorum, from the files of all its nodes.

    A node that starts under another directory id has lost the disk that it had.

    Raises:
        NotRecordedError: no step of the specification stands for something that was done.
    """
    decoder = msgspec.json.Decoder(Line)
    lines = [
        decoder.decode(text)
        for path in files
        for text in path.read_bytes().splitlines(keepends=True)
        if text.endswith(b"\n")  # the process may be killed within a line
    ]
    recorder = Recorder(kills=True)
    disks: dict[str, str] = {}
    for line in sorted(lines, key=lambda line: line.at_ns):
        node = line.key.split("-", 1)[0]
        if isinstance(line.sighting, Started):
            before = disks.get(node, line.key)
            if before != line.key:
                recorder.take(before, Lost())
            disks[node] = line.key
        recorder.take(line.key, line.sighting)
    return recorder.trace
