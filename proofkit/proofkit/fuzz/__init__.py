"""Fuzzes each decoder with any bytes: it must return, or raise the error that it promises.

- `target`: the type of a target and of its first inputs;
- `wire`: frames between peers, their bodies, hellos; `session`: frames of clients' sessions;
- `files`: files on a disk;
- `kafka`: answers of Kafka's controllers to the operator;
- `targets`: all of them by name; `make fuzz` (tools/fuzz.py) runs each under atheris, guided by
  coverage.

A target also encodes the decoded value again, and the result must decode to the same value. A
target corrects the checksums of its bytes first, so that the code after the check is reached.
`tests/unit/proofkit/test_fuzz.py` runs each target for a moment, with hypothesis; new decoders are
listed there, and a test fails for one that is not.
"""
