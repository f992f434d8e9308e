--------------------------------- MODULE Trace ---------------------------------
(* Whether recorded runs are behaviours of KRaftQuorum.                     *)
(*                                                                         *)
(* TLC goes along each trace, and says which it came to the end of.  A step  *)
(* that the specification does not permit, or that breaks a property, has   *)
(* no next state.  It is no error of TLC's: the way to it would be printed   *)
(* with all its states.                                                     *)
EXTENDS Steps

CONSTANT Traces         \* each [formed, steps]

VARIABLES trace, at

TraceInit ==
    /\ trace \in 1..Len(Traces)
    /\ at = 1
    /\ InitWith(Traces[trace].formed)

IsOver == at > Len(Traces[trace].steps)

\* The safety properties, where the last step may have broken them, and all of them at the end:
\* on every step they would cost more than the steps.
Last == Traces[trace].steps[at - 1]
Was(actions) == Last[1] \in actions \/ IsOver

ElectionsAreSafe == Was({"BecomeLeader"}) => ElectionSafety /\ LeaderCompleteness
VotesAreSafe     == Was({"GrantVote", "StartElection"}) => OneVotePerEpoch
DisksAreSafe     == Was({"Restart", "Truncate", "LoseDisk"}) =>
                        CommittedSurvives /\ KeepsWhatIsCommitted
CommitsAreSafe   ==
    IF Last[1] \in {"Commit", "LearnHighWatermark", "InstallSnapshot"}
    THEN LET r == Last[2] IN IsPrefix(Prefix(log[r], highWatermark[r]), Committed)
    ELSE Was({"BecomeLeader"}) => StateMachineSafety

Holds(name, property) == IF property THEN TRUE ELSE PrintT(<<"broken", trace, name>>) /\ FALSE

TraceNext ==
    /\ ~IsOver
    /\ UNCHANGED trace
    /\ at' = at + 1
    /\ Step(Traces[trace].steps[at])
    /\ Holds("ElectionsAreSafe", ElectionsAreSafe')
    /\ Holds("VotesAreSafe", VotesAreSafe')
    /\ Holds("DisksAreSafe", DisksAreSafe')
    /\ Holds("CommitsAreSafe", CommitsAreSafe')
    /\ IF IsOver' THEN PrintT(<<"permitted", trace>>) ELSE TRUE

TraceSpec == TraceInit /\ [][TraceNext]_<<vars, trace, at>>

\* A trace has one state at each of its places: TLC need not compare what is in it.
Place == <<trace, at>>
================================================================================
