"""A reverse proxy before the API server that does harm on request.

```python
async with FaultProxy(cluster) as proxy:
    start_operator(kubeconfig=proxy.kubeconfig)
    proxy.fail(409, verb="patch", path="/statefulsets/", times=1)
    gate = proxy.gate(verb="delete", path="/persistentvolumeclaims/")
    await gate.arrived()          # the operator stands before its delete
    gate.release()
```

`rules` decides which request is hit (pure), `proxy` forwards and does the harm.
"""

from .proxy import FaultProxy
from .rules import Gate, RequestFacts, Rule

__all__ = ["FaultProxy", "Gate", "RequestFacts", "Rule"]
