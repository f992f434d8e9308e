"""Bodies of the Kubernetes objects of a quorum: pure builders, one file per kind.

What must not live here: a request, or an observation. `build` collects the bodies to
apply; the StatefulSet is separate, since its replicas change only one by one and with
a resourceVersion (S21).

- `statefulset`; in its pod template `pod_security`, `metrics_listener`, `tls`, `access_mount`;
- `services`, `disruption`, `network_policy`, `latch`, `secrets`, `cert_manager`: other objects;
- `node_config`, `access_file`: what the nodes read;
- `metadata`, `finalizer`: labels, owner, digest, and the finalizer;
- `drift`, `template`, `ownership`: what other clients changed in an object.
"""
