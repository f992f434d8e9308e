"""A real Kubernetes API on one machine.

Real etcd, kube-apiserver and kube-controller-manager, with a process node under
them that runs pods as local processes. Use it through `DevCluster`.
"""

from .cluster import DevCluster

__all__ = ["DevCluster"]
