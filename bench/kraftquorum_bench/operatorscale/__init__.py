"""`make bench-operator`: one operator and many quorums, whose nodes are simulated.

The API server, etcd, the controller manager and the operator are real. The pods are objects of that
API without processes: a small kubelet gives them their status, and one server answers the API of
all their nodes. So a machine with two cores has a thousand quorums.

- `replicas`: the replicas of one quorum, as their API shows them; `nodes`: their HTTP server;
- `kubelet`: binds pods, makes volumes, reports the status of pods; `simulated_cluster`: all of
  it, started and stopped;
- `audit`: the API server's own record of the operator's requests; `alarms`: what the operator
  reports of healthy quorums; `operatorprocess`: the operator, its memory and its processor time;
- `cases`: the sizes of a run; `measure`: what is measured in a case, in order;
- `report`: operator.json and its schema; `page`: docs/evidence/operator-scale.md; `cli`: the
  command line.
"""
