"""What the end-to-end suite stands on: `tests/e2e` has the cases themselves.

- `api`       reads objects of any cluster, by its kubeconfig alone
- `cluster`   which cluster it is, and what can be done to it
- `reach`     how a client on this machine reaches the pods
- `quorum`    one KRaftQuorum, and what a person does to it
- `evidence`  what is kept of a case that failed
- `figures`   the figures of each case, as JSON
- `tables`    the same as pages of the documentation (pure)
"""
