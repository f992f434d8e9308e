"""The quorum in TLA+, and whether a run is a behaviour that it permits.

- `KRaftQuorum.tla`: the specification. `Steps.tla`: its actions as data. `Model.tla`: bounds for a
  search. `Mutants.tla`: what replaces a rule. `Trace.tla`: goes along recorded runs;
- `tlc`: the model checker as a subprocess;
- `models`: the bounds and the mutants;
- `sightings`: what is seen of a replica; `recorder`: which steps that is;
- `simulator_traces`, `realnodes`: where sightings come from;
- `traces`: lets TLC judge recorded steps.
"""
