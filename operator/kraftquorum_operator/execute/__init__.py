"""Carrying an action out: one idempotent function per action, `run` chooses.

A function here does what its action says and no more: it decides nothing, and
what it finds done already counts as done. Every one is safe when it comes late.

- `run`: from an action to its function;
- `formation`: the latch, and what is sent to the nodes by it;
- `voters`: AddVoter and RemoveVoter, through the leader;
- `objects`: Kubernetes objects;
- `certificates`: the Secrets with certificates; `certificate_signing`: makes CAs and signs;
- `tools`: what the functions work with.
"""
