"""Every decoder against any bytes, for a moment: `make fuzz` does it for hours."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofkit.fuzz.files import BATCHES, KEYLESS_BATCH, with_checksums
from proofkit.fuzz.target import FuzzError, Target, same
from proofkit.fuzz.targets import TARGETS
from proofkit.mutation import taken_out
from raftnode.logformat import decode_batches, read_finished_batch

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "raftnode" / "raftnode"
KAFKA_CODEC = ROOT / "operator" / "kraftquorum_operator" / "kafka" / "codec"
WITHIN_OTHERS = {
    "wire.kafka.decode_error": "a number from an envelope that is read",
    "storage.directory.peer_starts.read_marks": "decode_marks on a file",
    "storage.directory.formation.read_latch": "decode_latch on a file",
    "storage.directory.meta_properties.read_meta_properties": "decode_meta_properties on a file",
    "storage.directory.identity.read_identity": "reads the files that have targets of their own",
    "storage.segments.index_files.read_index": "SegmentIndex.decode on two files",
    "storage.segments.index_files.read_index_ends": "SegmentIndex.decode on two files",
    "storage.directory.quarantine.read_mark": "any content is the reason",
}
"""Decoders that others call, and why that is enough."""

boundaries = st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])
edits = st.lists(
    st.tuples(
        st.sampled_from(["set", "cut", "insert", "repeat"]),
        st.integers(0, 2**16),
        boundaries | st.integers(0, 255),
    ),
    max_size=5,
)


def edited(data: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    """The bytes with something wrong."""
    for kind, place, value in changes:
        at = place % (len(data) + 1)
        if kind == "set":
            data = data[:at] + bytes((value,)) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at] + data[at + value :]
        elif kind == "insert":
            data = data[:at] + bytes((value,)) * (1 + value % 9) + data[at:]
        else:
            data = data[:at] + data[at : at + value] + data[at:]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_sound_bytes_are_taken(name: str):
    target = TARGETS[name]
    assert target.seeds
    assert [target.run(seed) for seed in target.seeds] == [True] * len(target.seeds)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_bytes_are_taken_or_refused_as_promised(name: str, data: st.DataObject):
    target = TARGETS[name]
    seed = data.draw(st.sampled_from(target.seeds) | st.binary(max_size=200))
    target.run(edited(seed, data.draw(edits)))


def decoders() -> set[str]:
    """All functions that make something of bytes or of a file."""
    found = set[str]()
    for folder in ("wire", "logformat", "storage", "transport"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            tree = ast.parse(path.read_text())
            functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
            for function in functions:
                takes = {
                    ast.unparse(one.annotation) for one in function.args.args if one.annotation
                }
                decodes = function.name.startswith("decode_") and "Files" not in takes
                reads = function.name.startswith("read_") and "Files" in takes
                if decodes or reads:
                    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
                    found.add(f"{module}.{function.name}")
    return found


def test_every_decoder_is_fuzzed():
    covered = {name for target in TARGETS.values() for name in target.covers}
    assert len(decoders()) > 20
    assert decoders() - covered - set(WITHIN_OTHERS) == set()


def test_every_decoder_of_kafkas_answers_is_fuzzed():
    covered = {name for target in TARGETS.values() for name in target.covers}
    functions = {
        f"kraftquorum_operator.kafka.codec.{path.stem}.{function.name}"
        for path in KAFKA_CODEC.glob("*.py")
        for function in ast.parse(path.read_text()).body
        if isinstance(function, ast.FunctionDef) and function.name.startswith("decode_")
    }
    assert len(functions) > 7
    assert functions - covered == set()


def test_the_page_tells_of_a_run_of_all_of_them():
    page = PACKAGE.parents[1] / "docs" / "evidence" / "proof.md"
    assert f"all {len(TARGETS)} targets" in page.read_text(encoding="utf-8")


def test_what_a_decoder_does_not_promise_is_a_fault():
    """So that the tests above can fail."""

    def hasty(data: bytes) -> object:
        return data[3]

    def forgetful(data: bytes) -> None:
        same(data, data[:2])

    with pytest.raises(IndexError):
        Target("hasty", hasty, (ValueError,), (b"four",), ()).run(b"two")
    with pytest.raises(FuzzError):
        Target("forgetful", forgetful, (ValueError,), (b"a",), ()).run(b"three")


def test_a_finished_batch_that_passes_and_cannot_be_read_is_a_fault():
    target = TARGETS["batch-finished"]
    counts_a_header = KEYLESS_BATCH[:-1] + b"\2"
    assert not target.run(counts_a_header)
    with (
        taken_out(read_finished_batch, "if sizes is None:", "if False:"),
        pytest.raises(FuzzError, match="cannot be read"),
    ):
        target.run(counts_a_header)


def test_checksums_are_put_right_so_that_what_is_behind_them_is_reached():
    for sound in BATCHES:
        wrong = bytearray(sound)
        wrong[-1] ^= 1  # of the last record of the last batch: its checksum is wrong now
        assert len(decode_batches(sound)) == len(decode_batches(with_checksums(bytes(sound))))
        assert with_checksums(sound) == sound
        assert with_checksums(bytes(wrong)) != bytes(wrong)
