"""Reads facts from the Kubernetes API and the replicas into one frozen observation.

- `read`: the observation of one quorum; `deletion`: that of a resource that is being deleted;
- `kube`, `objects`, `foreign`, `troubles`: what the Kubernetes objects say;
- `quorum`, `node_image`, `cluster_domain`: what the replicas and their pods say;
- `certificates`, `cert_manager`, `access`: what Secrets and Certificates say;
- `last_known`: what the last status reported; `missing_right`: what a refused request says.
"""
