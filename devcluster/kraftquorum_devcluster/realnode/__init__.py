"""Nodes with a real kubelet: containerd, runc, CNI, kube-proxy and CoreDNS, on one machine.

Each node is a machine of its own as far as the kernel lets it be: network, mount and process
namespaces that vanish with their first process, however it ends. So processes, mounts, network
devices and packet filters need no cleaning up; cgroups and files do.

- `packages`  what comes from the distribution, and how it is installed
- `addresses`  which address belongs to whom (pure)
- `links`     the network namespaces and what joins them
- `settings`  the texts that the programs are configured with (pure)
- `nodeinit`  first process of a node: standard library only, run by path
- `machine`   one node from outside
- `cgroups`   the one thing of a node that the kernel does not forget
- `disks`     volumes with a file system of their own, and how they break
- `nodes`     ties the parts together, for the supervisor
- `images`    container images out of archives
"""
