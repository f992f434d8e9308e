"""The API of a node for people, programs and the operator: HTTP, and sessions on the same listener.

- `server`: the application and its listener; `http`: strict bodies and queries, and answers;
- `service`: the interface to the node, which `raftnode.runtime.service` implements;
- `kv_routes`, `log_routes`, `quorum_routes`, `node_routes`: the HTTP routes, by subject;
- `session_route`: a session's WebSocket; `session`: its operations and answers; `session_share`:
  its part of the node;
- `listeners`: which listener of a node serves which part of the API;
- `guard`: applies the limits for clients; `client_connection`: a connection with its deadlines;
- `authorization`: applies the access file and the cluster id of requests; `needs`: what a route
  needs; `client_certificate`: the names in a client's certificate;
- `checks`: what a client's key and records must be, whichever way they come;
- `model`, `queries`, `media`, `errors`: the models, parameters, headers and errors of the API;
- `encode`: records as JSON; `openapi`: the description of all routes;
- `turns`: large answers one at a time; `metrics`, `metric_table`: metrics of the requests.
"""
