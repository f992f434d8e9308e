--------------------------------- MODULE Model ---------------------------------
(* Bounds under which TLC checks KRaftQuorum to the end.                    *)
EXTENDS Steps

CONSTANTS
    Formed,             \* the voters that the quorum was formed with
    FirstLeader,        \* leads epoch 1, whose first record all of them have
    Standing,           \* the replicas that may start an election
    Hearing,            \* the replicas that vote for others and follow others
    Adding, Removing,   \* the replicas that may be added, and removed
    Losing, Crashing,   \* the replicas whose disks may be lost, that may crash
    EpochMax, RecordsMax,
    Budget,             \* how often things may happen: [crash, loss, change, write]
    Learning,           \* whether followers learn the high watermark
    Snapshotting,       \* whether replicas may begin with a snapshot
    Prelude             \* steps that come first: the search begins after them

VARIABLES spent, at

ModelInit ==
    LET first == <<[epoch |-> 1, voters |-> Formed, value |-> None]>>
        give(x, y) == [r \in Replicas |-> IF r \in Formed THEN x ELSE y]
    IN  /\ base = give(Formed, {})
        /\ epoch = give(1, 0)
        /\ vote = give(FirstLeader, None)
        /\ leader = give(FirstLeader, None)
        /\ log = give(first, <<>>)
        /\ durable = give(first, <<>>)
        /\ role = [r \in Replicas |-> IF r = FirstLeader THEN "leader"
                                      ELSE IF r \in Formed THEN "follower" ELSE "unattached"]
        /\ highWatermark = give(1, 0)
        /\ lost = {}
        /\ asked = {[epoch |-> 1, candidate |-> FirstLeader, last |-> Position(<<>>)]}
        /\ granted = {[epoch |-> 1, voter |-> v, candidate |-> FirstLeader] : v \in Formed}
        /\ fetched = [r \in Replicas |-> <<>>]
        /\ said = <<[leaders |-> {FirstLeader}, log |-> first, highWatermark |-> 1]>>
        /\ spent = [what \in DOMAIN Budget |-> 0]
        /\ at = 1

Spend(what) == spent[what] < Budget[what] /\ spent' = [spent EXCEPT ![what] = @ + 1]

ModelElections ==
    \E r \in Replicas :
        \/ r \in Standing /\ epoch[r] < EpochMax /\ StartElection(r)
        \/ BecomeLeader(r)
        \/ r \in Hearing /\ \E a \in asked : GrantVote(r, a)
        \/ r \in Hearing /\ \E e \in DOMAIN said : \E l \in said[e].leaders : role[r] # "leader" /\ Follow(r, e, l)

\* Steps that only let others do more come whole: a flush of all that is written, a Fetch when
\* all is flushed, the newest high watermark, the largest offset that may be committed.
ModelReplication ==
    \E r \in Replicas :
        \/ durable[r] = log[r] /\ role[r] = "follower" /\ Fetch(r)
        \/ Truncate(r)
        \/ Flush(r, Len(log[r]))
        \/ role[r] = "follower" /\ \E n \in 1..Len(SentTo(r).log) :
              Replicate(r, n) \/ (Learning /\ n = SentTo(r).highWatermark
                                           /\ LearnHighWatermark(r, n))
        \/ \E n \in 1..Len(log[r]) :
              Commit(r, n) /\ \A m \in n + 1..Len(log[r]) : ~MayCommit(r, m)

ModelChanges ==
    \E r \in Replicas : (\E v \in Adding : AddVoter(r, v)) \/ (\E v \in Removing : RemoveVoter(r, v))

ModelCrashes ==
    \E r \in Crashing :
        Restart(r, durable[r], 0) \/ \E n \in 0..Len(log[r]) : Restart(r, Prefix(log[r], n), 0)

Anything ==
    \/ (ModelElections \/ ModelReplication) /\ UNCHANGED spent
    \/ Snapshotting /\ Snapshots /\ UNCHANGED spent
    \/ Spend("write") /\ Writes
    \/ Spend("change") /\ ModelChanges
    \/ Spend("crash") /\ ModelCrashes
    \/ Spend("loss") /\ \E r \in Losing : LoseDisk(r)

ModelNext ==
    IF at <= Len(Prelude) THEN Step(Prelude[at]) /\ at' = at + 1 /\ UNCHANGED spent
    ELSE Anything /\ UNCHANGED at

ModelSpec == ModelInit /\ [][ModelNext]_<<vars, spent, at>>

Bounded == \A r \in Replicas : Len(log[r]) <= RecordsMax
================================================================================
