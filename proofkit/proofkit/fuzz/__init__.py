"""Every decoder against any bytes: each returns, or raises the one error that it promises.

- `target`: what a target is, and the bytes that it begins with;
- `wire`: frames between peers, their bodies, hellos;
- `files`: whatever is read from a disk;
- `targets`: all of them by name; `make fuzz` (tools/fuzz.py) runs each under atheris, guided by
  coverage.

A target does more than not to crash: what it decodes it encodes again, and that must decode to
the same. Where bytes carry a checksum, it is put right first: else nothing behind the check is
ever reached. `tests/unit/proofkit/test_fuzz.py` runs each target for a moment, with
hypothesis; new decoders are listed there, and a test fails for one that is not.
"""
