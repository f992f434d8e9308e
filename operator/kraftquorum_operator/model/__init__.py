"""The data that all folders share: resource, status, observation, objects, latch.

- `spec`, with its parts `config`, `tls`, `access`, `network_policy`; `spec_base`: what all share;
- `status`: what users read; `crd`: the CustomResourceDefinitions, from both;
- `kafka_spec`, `kafka_status`: the same of a KafkaQuorum;
- `observation`: what `plan.decide` may know, with `access_facts` and `certificates` in it;
- `access_state`: what the operator keeps beside an access file;
- `engine`: what the planner knows of the software whose voters it changes;
- `objects`: Kubernetes objects; `latch`: the content of a formation latch;
- `defaults`, `installation`: what the operator's installation decides;
- `pem`, `certificate_files`, `quantity`: facts of PEM text, places of certificates, quantities.
"""
