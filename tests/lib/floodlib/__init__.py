"""What floods cost other clients.

- `figures`: those of one flood, as its test measures them;
- `bounds`: how much a flood may take, and why;
- `tables`: docs/evidence/floods.md, from the report of a run.
"""
