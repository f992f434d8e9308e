"""Apache Kafka's controllers: what is known of a quorum that exists, and advice about it.

- `codec`: Kafka's messages as bytes (pure);
- `connection`: one controller, with TLS and SASL; `scram`: its mechanism (pure);
- `security`, `id_map`: what the options and the properties file say;
- `query`: reads the controllers and lets a majority confirm the leader; `facts`: what was read;
- `refusals`: why there is no advice (pure); `advice`: what to do (pure);
- `judgement`: both together, as the command and the operator say it (pure);
- `command`, `report`: the program's part; `exit_codes`: how it ends;
- `advisor`: the running operator's part: checks each KafkaQuorum again and again (decision 41);
  `check`: one such check, with `controller_addresses` and the Secret of `credentials`;
  `status`, `metrics`: what it reports;
- `quorum` (pure), `voter_requests`: what the operator's planner needs of an engine (decision 39);
- `errors`: the tree of errors.

The command stands beside the planner of our own nodes (decision 37).
"""
