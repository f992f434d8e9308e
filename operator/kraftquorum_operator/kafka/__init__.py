"""Apache Kafka's controllers.

- `codec`: Kafka's messages as bytes (pure);
- `errors`: the tree of errors.
"""
