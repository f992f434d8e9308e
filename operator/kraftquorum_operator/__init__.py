"""The kraftquorum operator.

`reconcile` is one reconciliation, in the order of these folders:

- `observe`: facts from the Kubernetes API and the replicas;
- `judge`: what the facts mean, such as which voters count (pure);
- `plan`: the next action, or the guard that it waits for (pure);
- `report`: status, conditions and events;
- `execute`: the action carried out.

They stand on:

- `model`: the resource, its status, one observation; `resources`: the bodies of the objects;
- `kafka`: advice about controllers of Apache Kafka, by a command and by the running operator;
- `clients`: the Kubernetes API and the replicas; `names`, `rights`: names and rights in a cluster;
- `memory`: what a process remembers between two reconciliations;
- `evaluation`: observation to decision, of the watches or of the API server;
- `schedule`: when a quorum is reconciled; `handlers`: the watches, in kopf's terms;
- `http`, `metrics`, `logs`: the status page, the metrics and the log;
- `app`, `cli`, `settings`, `preflight`: the program and its start-up; `reference`: its pages;
- `errors`: the tree of errors.
"""
