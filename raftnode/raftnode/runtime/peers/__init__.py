"""The node and its peers: their admission, promises to them, frames to events.

- `peer_messages`: between the core's messages and the transport;
- `gatekeeper`: admits or refuses a peer by what is remembered of its storage;
- `peer_hello`: the hello to every voter at the start;
- `vote_promise`: promises not to vote, which survive a crash.
"""
