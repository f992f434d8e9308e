"""A node without containers: pods run as local processes.

- `node`      ties the parts together: informers in, workers out
- `registration`  the Node object, its lease and heartbeat
- `binder`    gives pods to the node once their claims are bound
- `provisioner`  makes and removes volumes, which are directories
- `worker`    one pod from start to deletion; `container` one process of it
- `podspec`, `environment`, `mounts`  what a pod's text means here (pure)
- `probes`    decides (pure); `prober` asks
- `status`    what is reported to the API server (pure)
- `addresses`, `hosts`  loopback addresses and the names for them
- `kubelet_api`  HTTPS endpoint for `kubectl logs` and for `DevCluster`
"""
