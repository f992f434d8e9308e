"""The kraftquorum node: one replica of a quorum, its clients and its command line.

A client's write comes in through `api`, as HTTP or as an operation of a session (`session` has the
format). `runtime.writes` gathers writes and gives them to `core`, which decides: on the leader in
`core.replication.leadership`, on a follower in `core.replication.fetcher`. `runtime.driver` carries
the decisions out: on disk with `storage`, to peers with `transport` and `wire`, and into the
key-value store of `statemachine`.

- `core`: Raft as a pure function;
- `runtime`: the process around it;
- `storage`, `logformat`, `logfiles`: the disk, the format of its bytes, and its public readers;
- `transport`, `wire`: frames between replicas;
- `api`, `session`, `client`: what clients use, and the Python client;
- `access`: who may do what on a node, by its access file;
- `tls`: certificates of the listeners, and handshakes;
- `limits`: what clients may use of a node, so that a flood takes nothing from the quorum;
- `statemachine`: the key-value store;
- `cli`, `commands`, `settings`: the program `raftnode` and the settings of a node;
- `plain_start`: the start of a node without the command line's libraries;
- `errors`, `hosts`, `log_limit`, `deadline_timer`, `credential_flags`, `flag_groups`,
  `program_version`, `small_files`, `followed_files`, `core_dumps`: what several of them share.
"""
