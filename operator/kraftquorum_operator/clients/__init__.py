"""How the operator reaches the Kubernetes API and the replicas; nothing else opens a connection.

- `kube`: the Kubernetes API; `informer`: one kind of objects, listed and watched; `cache`: reads of
  what the watches delivered; `kept_reads`: reads by name that are kept for a while;
- `reviews`: who a bearer token belongs to, and what its owner may do;
- `lease`, `lease_thread`: the Lease that makes one of several operators the active one;
- `nodes`: the replicas' API, on `raftnode.client`; `node_access`: CAs, certificate and token;
- `handshake`: whether nodes would accept a certificate;
- `process_timeout`: timeouts that leave out time in which the process was stopped.
"""
