"""`make bench`: quorums of ours beside etcd, Apache Kafka, ZooKeeper and the raw machine.

Each workload runs in several rounds, in which ours and its peer take turns, each asked by its own
best client. What counts is the ratio within a round. `python -m kraftquorum_bench --help` lists the
options; docs/contributing/benchmarks.md explains how to run and read it.

- `workloads`: what is measured; `sizes`: how long; `harness`: the rounds, within a time limit;
- `quorums`: starts them; `contenders`: what is measured, as the harness knows it; `own_quorum`,
  `etcd`, `kafka`, `zookeeper`: each of them; `machine`: the raw disk, loopback and processor;
- `loads`: loads and their results; `generator`, `loadprocess`, `callers`, `httpcalls`: our load
  generator, a process of its own; `etcdtool`: etcd's;
- `events`: failover, repair, restart, scale-up and memory;
- `process_usage`: processor time and memory of processes; `processes`: children that always end;
  `jvm`: Java programs; `interrupt`: the end of a run by a signal;
- `rounds`: medians and spread; `report`, `report_file`: report.json and its schema; `goals`: the
  goals and whether they are met; `plots`, `page`: what people read; `cli`: the command line;
- `operatorscale`: `make bench-operator`, one operator and many quorums.
"""
