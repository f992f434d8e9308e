-------------------------------- MODULE Mutants --------------------------------
(* What takes the place of a rule of KRaftQuorum, to show that TLC sees its *)
(* lack.  `models.py` says which definition each replaces.                  *)
EXTENDS Model

AnyTime(r)             == TRUE
AnyRecord(r, n)        == TRUE
AnyLog(last, r)        == TRUE
AnyCandidate(r, e)     == e >= epoch[r]
CoversNothing(r, l, n) == FALSE

\* <<3, 1>> and <<3, 2>> count as one voter.
MajorityOfIds(S, voters) ==
    LET ids(T) == {v[1] : v \in T}
    IN  2 * Cardinality(ids(S \cap voters)) > Cardinality(ids(voters))

\* KIP-595 without directory ids: the blank disk goes on under the old key.
WipeInPlace(r) == Forget(r) /\ UNCHANGED lost

\* The vote is kept in memory alone.
RestartWithoutVote(r, l, h) ==
    /\ l = durable[r]
    /\ log' = [log EXCEPT ![r] = l]
    /\ vote' = [vote EXCEPT ![r] = None]
    /\ role' = [role EXCEPT ![r] = RoleAfterRestart(r)]
    /\ highWatermark' = [highWatermark EXCEPT ![r] = h]
    /\ UNCHANGED <<epoch, leader, durable, base, lost, messages>>

\* A leader counts what it has written, flushed or not.
AcknowledgedUnflushed(r, v) ==
    IF v = r THEN Len(log[r])
    ELSE IF epoch[r] \notin DOMAIN fetched[v] THEN 0
    ELSE fetched[v][epoch[r]].acked

\* A leader outside the voters counts itself.
MayCommitCountingItself(r, n) ==
    /\ IsOfOwnEpoch(r, n)
    /\ 2 * Cardinality({v \in Voters(r) \cup {r} : Acknowledged(r, v) >= n})
          > Cardinality(Voters(r))
================================================================================
