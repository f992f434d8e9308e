"""Bodies of the Kubernetes objects of a quorum: pure builders, one file per kind.

What must not live here: a request, or an observation. `build` collects the bodies to
apply; the StatefulSet is separate, since its replicas change only one by one and with
a resourceVersion (S21).
"""
