"""What to do next: a pure function of what is wanted, what is observed and the time.

Nothing here reads or writes anything. `decide` calls one file per concern, in
the order of S24: repair, shrink, grow, roll. Each checks the guards of
`guards.py`, and the first that blocks is what the quorum waits for.

- `decide`: the order of concerns; `actions`: its results;
- `compare`: which Kubernetes objects differ from what is wanted;
- `formation`, `replacement`, `scaling`, `rollout`, `restart`, `stuck_pods`, `deletion`: a concern
  each; `replacement` replaces a voter whose storage is lost;
- `deferral`: rolls before a scale-up that the cluster has no room for;
- `certificates`: issued, renewed, moved to another CA, or left to cert-manager; `issued`:
  cert-manager's objects for that; `tls_level`: from plain to TLS and back;
- `volume_growth`: claims grow to the wanted size;
- `budget`: when Kubernetes has to count the disruption budget again;
- `quorum_loss`: whether a quorum without a leader can recover;
- `guard`, `guards`, `formation_guards`, `object_guards`, `certificate_guards`, `access_guards`,
  `case`: what holds an action back.
"""
