"""A model of a cluster and a quorum to drive `decide` in, and builders of observations."""
