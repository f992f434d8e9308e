"""The KRaftQuorum resource as pydantic models: the source of `crds/`."""
