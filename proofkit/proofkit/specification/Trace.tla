--------------------------------- MODULE Trace ---------------------------------
(* Whether recorded runs are behaviours of KRaftQuorum.                     *)
(*                                                                         *)
(* TLC goes along each trace.  A step that the specification does not       *)
(* permit has no next state, which is a deadlock.                           *)
EXTENDS Steps

CONSTANT Traces         \* each [formed, steps]

VARIABLES trace, at

TraceInit ==
    /\ trace \in 1..Len(Traces)
    /\ at = 1
    /\ InitWith(Traces[trace].formed)

IsOver == at > Len(Traces[trace].steps)

TraceNext ==
    /\ UNCHANGED trace
    /\ IF IsOver THEN UNCHANGED <<at, vars>>
       ELSE at' = at + 1 /\ Step(Traces[trace].steps[at])

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, at>>

\* The safety properties, where the last step may have broken them, and all of them at the end:
\* on every step they would cost more than the steps.
Last == IF at = 1 THEN <<"Init">> ELSE Traces[trace].steps[at - 1]
Was(actions) == Last[1] \in actions \/ IsOver

ElectionsAreSafe == Was({"BecomeLeader"}) => ElectionSafety /\ LeaderCompleteness
VotesAreSafe     == Was({"GrantVote", "StartElection"}) => OneVotePerEpoch
DisksAreSafe     == Was({"Restart", "Truncate", "LoseDisk"}) =>
                        CommittedSurvives /\ KeepsWhatIsCommitted
CommitsAreSafe   ==
    IF Last[1] \in {"Commit", "LearnHighWatermark", "InstallSnapshot"}
    THEN LET r == Last[2] IN IsPrefix(Prefix(log[r], highWatermark[r]), Committed)
    ELSE Was({"BecomeLeader"}) => StateMachineSafety

\* A trace has one state at each of its places: TLC need not compare what is in it.
Place == <<trace, at>>
================================================================================
