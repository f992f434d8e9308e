"""The running node: gives the core its events and carries its effects out.

- tasks: how every task is started, held and watched;
- driver: the one task that owns the core;
- flusher: fdatasync in its own thread;
- appends: clients' writes, gathered into batches, each with one outcome;
- inquiries: requests to the core that wait for an answer;
- applier: the committed log into the key-value store;
- peering: the transport's callbacks as events, and effects as frames;
- description, gauges: what the API and the metrics show;
- diskroom: what is free, once the log has given back what it reserved;
- watch: the disk's identity and free space on a timer;
- service: all of it as the HTTP API's `NodeService`;
- recovery: from what the disk holds to a core;
- promising: what a storage remembers of promises to vote for nobody;
- assembly: which part knows which;
- process: signals, open files, last words;
- server: a node from start to stop.
"""
