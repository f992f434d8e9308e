"""Bodies of the Kubernetes objects of a quorum: pure builders, one file per kind.

What must not live here: a request, or a look at what is there. `build` gathers
what is applied; the StatefulSet is apart, since its replicas are changed only
one by one and with a resourceVersion (S21).
"""
