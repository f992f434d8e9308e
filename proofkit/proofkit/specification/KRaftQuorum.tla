------------------------------ MODULE KRaftQuorum ------------------------------
(***************************************************************************)
(* A KRaft quorum: KIP-595's Raft with KIP-856's voter changes.             *)
(*                                                                         *)
(* A replica is a pair <<id, directory id>>.  A node whose disk is lost    *)
(* comes back under its id with a new directory id: another replica.       *)
(*                                                                         *)
(* Messages may be delayed, lost, repeated and reordered.  So they are not  *)
(* kept one by one.  The module keeps what replicas have said: requests    *)
(* for votes, votes, Fetches, and the log that the leader of each epoch     *)
(* has sent.  An action may use each of it at any later time, or never.     *)
(*                                                                         *)
(* Not in here: pre-votes, timeouts, transfers of leadership and catch-up  *)
(* (they decide when an action is taken, not what it may do), snapshots'   *)
(* contents, reads, and volumes that are restored from a copy.              *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
    Replicas,       \* all pairs <<id, directory id>>, blank disks included
    Values          \* what clients write

VARIABLES
    \* On the disk of each replica:
    epoch,          \* the largest epoch that it knows
    vote,           \* for which replica it voted in that epoch, or None
    leader,         \* which replica leads that epoch, or None
    log,            \* its records, each [epoch, voters, value]
    durable,        \* its log as the last flush left it: what a crash leaves at least
    base,           \* the voters that it was told when the quorum was formed
    \* In its memory:
    role,           \* "unattached", "follower", "candidate" or "leader"
    highWatermark,  \* up to where it knows its log to be committed
    \* What has happened to the disks:
    lost,           \* the replicas whose disk is gone
    \* What has been said:
    asked,          \* requests for votes, [epoch, candidate, last]
    granted,        \* votes, [epoch, voter, candidate]
    fetched,        \* of each replica its newest Fetch in each epoch, [last, acked]
    said            \* of each epoch that had a leader, [leaders, log, highWatermark]

disk     == <<epoch, vote, leader, log, durable, base>>
memory   == <<role, highWatermark>>
messages == <<asked, granted, fetched, said>>
vars     == <<disk, memory, lost, messages>>

None == <<>>

--------------------------------------------------------------------------------
(* Logs.  A record carries the voters that are in force after it.  A voter   *)
(* change is a record whose voters differ from those of the record before;   *)
(* it is in force as soon as it is appended, and truncation reverts it.      *)

VotersAt(r, n) == IF n = 0 THEN base[r] ELSE log[r][n].voters
Voters(r)      == VotersAt(r, Len(log[r]))

\* A log's last position: what votes and Fetches compare.
Position(l) == [epoch |-> IF l = <<>> THEN 0 ELSE l[Len(l)].epoch, end |-> Len(l)]

Reaches(p, q) == p.epoch > q.epoch \/ (p.epoch = q.epoch /\ p.end >= q.end)

\* Whether a log that ends at p is, to its end, the log l: KIP-595 compares no more.
Matches(p, l) == IF p.end \in 1..Len(l) THEN l[p.end].epoch = p.epoch ELSE p.end = 0

\* Where the records of epochs up to e end in the log l.
EndOfEpoch(l, e) == CHOOSE n \in 0..Len(l) : /\ n = 0 \/ l[n].epoch <= e
                                             /\ n = Len(l) \/ l[n + 1].epoch > e

\* How much of the log own may stay, given a leader's log l that it diverges from.
TruncationPoint(own, l) ==
    LET known == EndOfEpoch(l, Position(own).epoch)
        until == IF known = 0 THEN 0 ELSE l[known].epoch
        kept  == EndOfEpoch(own, until)
    IN  IF kept > 0 /\ own[kept].epoch = until /\ known < kept THEN known ELSE kept

Prefix(l, n)   == SubSeq(l, 1, n)
IsPrefix(k, l) == Len(k) <= Len(l) /\ Prefix(l, Len(k)) = k

\* How much of its log survives a crash.  A truncation is durable with the next flush only.
Flushed(r) ==
    LET agree(n) == n = 0 \/ durable[r][n].epoch = log[r][n].epoch
    IN  IF Matches(Position(durable[r]), log[r]) THEN Len(durable[r])
        ELSE CHOOSE n \in 0..Len(log[r]) :
                /\ n <= Len(durable[r]) /\ agree(n)
                /\ n = Len(log[r]) \/ n = Len(durable[r]) \/ ~agree(n + 1)

\* Voters are counted by replica: by id and directory id.
IsMajority(S, voters) == 2 * Cardinality(S \cap voters) > Cardinality(voters)

--------------------------------------------------------------------------------
InitWith(formed) ==
    /\ base = [r \in Replicas |-> IF r \in formed THEN formed ELSE {}]
    /\ epoch = [r \in Replicas |-> 0]
    /\ vote = [r \in Replicas |-> None]
    /\ leader = [r \in Replicas |-> None]
    /\ log = [r \in Replicas |-> <<>>]
    /\ durable = [r \in Replicas |-> <<>>]
    /\ role = [r \in Replicas |-> "unattached"]
    /\ highWatermark = [r \in Replicas |-> 0]
    /\ lost = {}
    /\ asked = {}
    /\ granted = {}
    /\ fetched = [r \in Replicas |-> <<>>]
    /\ said = <<>>

Init == \E formed \in SUBSET Replicas \ {{}} : InitWith(formed)

--------------------------------------------------------------------------------
(* Elections: KIP-595's Vote, with KIP-856's voters and keys.               *)

\* A replica goes over to epoch e, and forgets the vote and leader of a lower one.
EnterEpoch(r, e, v, l, as) ==
    /\ epoch' = [epoch EXCEPT ![r] = e]
    /\ vote' = [vote EXCEPT ![r] = v]
    /\ leader' = [leader EXCEPT ![r] = l]
    /\ role' = [role EXCEPT ![r] = as]

VoteIn(r, e) == IF e = epoch[r] THEN vote[r] ELSE None

\* A replica that is no voter stands without a vote of its own: the removal of a voter that
\* is not committed yet may be in the only log that can win.
StartElection(r) ==
    LET e   == epoch[r] + 1
        own == r \in Voters(r)
    IN  /\ r \notin lost
        /\ role[r] # "leader"
        /\ Voters(r) # {}
        /\ EnterEpoch(r, e, IF own THEN r ELSE None, None, "candidate")
        /\ asked' = asked \cup {[epoch |-> e, candidate |-> r, last |-> Position(log[r])]}
        /\ granted' = granted \cup
              (IF own THEN {[epoch |-> e, voter |-> r, candidate |-> r]} ELSE {})
        /\ UNCHANGED <<log, durable, base, highWatermark, lost, fetched, said>>

\* At most one vote an epoch, and none in an epoch whose leader is known.
HasNotVoted(r, e) == e > epoch[r] \/ (e = epoch[r] /\ vote[r] = None /\ leader[r] = None)

IsUpToDate(last, r) == Reaches(last, Position(log[r]))

\* Each replica may vote, voter or not: the set of the candidate decides what counts.
GrantVote(r, a) ==
    /\ r \notin lost
    /\ a \in asked
    /\ a.candidate # r
    /\ HasNotVoted(r, a.epoch)
    /\ IsUpToDate(a.last, r)
    /\ EnterEpoch(r, a.epoch, a.candidate, None, "unattached")
    /\ granted' = granted \cup {[epoch |-> a.epoch, voter |-> r, candidate |-> a.candidate]}
    /\ UNCHANGED <<log, durable, base, highWatermark, lost, asked, fetched, said>>

VotesFor(r) == {g.voter : g \in {h \in granted : h.epoch = epoch[r] /\ h.candidate = r}}

\* The first record of an epoch; the first of all epochs makes the voters known to observers.
BecomeLeader(r) ==
    LET e    == epoch[r]
        own  == Append(log[r], [epoch |-> e, voters |-> Voters(r), value |-> None])
        both == IF e \in DOMAIN said THEN said[e].leaders ELSE {}
    IN  /\ r \notin lost
        /\ role[r] = "candidate"
        /\ IsMajority(VotesFor(r), Voters(r))
        /\ EnterEpoch(r, e, vote[r], r, "leader")
        /\ log' = [log EXCEPT ![r] = own]
        /\ said' = (e :> [leaders |-> both \cup {r}, log |-> own,
                          highWatermark |-> highWatermark[r]]) @@ said
        /\ UNCHANGED <<durable, base, highWatermark, lost, asked, granted, fetched>>

\* A message named an epoch; an epoch exists once a candidate has asked for votes in it.
LearnEpoch(r, e) ==
    /\ r \notin lost
    /\ e > epoch[r]
    /\ \E a \in asked : a.epoch = e
    /\ EnterEpoch(r, e, None, None, "unattached")
    /\ UNCHANGED <<log, durable, base, highWatermark, lost, messages>>

\* A leader resigns, a candidate gives up, a follower leaves its leader: the epoch stays.
Resign(r) ==
    /\ r \notin lost
    /\ role[r] # "unattached"
    /\ role' = [role EXCEPT ![r] = "unattached"]
    /\ UNCHANGED <<disk, highWatermark, lost, messages>>

\* A message named the leader.  Another disk under the own id is no leader to follow: its
\* address leads back to this replica.
Follow(r, e, l) ==
    /\ r \notin lost
    /\ e \in DOMAIN said
    /\ l \in said[e].leaders
    /\ l[1] # r[1]
    /\ e > epoch[r] \/ (e = epoch[r] /\ leader[r] \in {None, l} /\ role[r] # "leader")
    /\ EnterEpoch(r, e, VoteIn(r, e), l, "follower")
    /\ UNCHANGED <<log, durable, base, highWatermark, lost, messages>>

--------------------------------------------------------------------------------
(* Replication: KIP-595's Fetch.                                            *)

\* A replica tells where its log ends, and acknowledges what a crash does not take.  A
\* replica that looks for the leader fetches, too.
Fetch(r) ==
    /\ r \notin lost
    /\ role[r] \in {"unattached", "follower"}
    /\ fetched' = [fetched EXCEPT ![r] =
                      (epoch[r] :> [last |-> Position(log[r]), acked |-> Flushed(r)]) @@ @]
    /\ UNCHANGED <<disk, memory, lost, asked, granted, said>>

SentTo(r) == said[epoch[r]]

\* Records that the leader of the epoch has sent, up to the record n.
Replicate(r, n) ==
    /\ r \notin lost
    /\ role[r] = "follower"
    /\ Matches(Position(log[r]), SentTo(r).log)
    /\ n > Len(log[r]) /\ n <= Len(SentTo(r).log)
    /\ log' = [log EXCEPT ![r] = @ \o SubSeq(SentTo(r).log, Len(@) + 1, n)]
    /\ UNCHANGED <<epoch, vote, leader, durable, base, memory, lost, messages>>

\* The leader's answer to a Fetch whose log is not the leader's.
Truncate(r) ==
    LET n == TruncationPoint(log[r], SentTo(r).log)
    IN  /\ r \notin lost
        /\ role[r] = "follower"
        /\ ~Matches(Position(log[r]), SentTo(r).log)
        /\ log' = [log EXCEPT ![r] = Prefix(@, n)]
        /\ UNCHANGED <<epoch, vote, leader, durable, base, memory, lost, messages>>

\* Whether all that is in the first n records of the log l is in the replica's own log.
Covers(r, l, n) == n <= Len(log[r]) /\ log[r][n].epoch = l[n].epoch

\* A snapshot in the place of the log: of what the leader of an epoch has committed.  A log that
\* has all of that stays, since the replica may have acknowledged more.
InstallSnapshot(r, e, n) ==
    /\ r \notin lost
    /\ role[r] # "leader"
    /\ e \in DOMAIN said /\ e <= epoch[r]
    /\ n > highWatermark[r] /\ n <= said[e].highWatermark
    /\ ~Covers(r, said[e].log, n)
    /\ log' = [log EXCEPT ![r] = Prefix(said[e].log, n)]
    /\ durable' = [durable EXCEPT ![r] = Prefix(said[e].log, n)]
    /\ highWatermark' = [highWatermark EXCEPT ![r] = n]
    /\ UNCHANGED <<epoch, vote, leader, base, role, lost, messages>>

LearnHighWatermark(r, n) ==
    /\ r \notin lost
    /\ role[r] = "follower"
    /\ Matches(Position(log[r]), SentTo(r).log)
    /\ n > highWatermark[r]
    /\ n <= SentTo(r).highWatermark /\ n <= Len(log[r])
    /\ highWatermark' = [highWatermark EXCEPT ![r] = n]
    /\ UNCHANGED <<disk, role, lost, messages>>

Flush(r, n) ==
    /\ r \notin lost
    /\ n >= Flushed(r) /\ n <= Len(log[r])
    /\ durable' = [durable EXCEPT ![r] = Prefix(log[r], n)]
    /\ UNCHANGED <<epoch, vote, leader, log, base, memory, lost, messages>>

--------------------------------------------------------------------------------
(* A leader.                                                                *)

LeaderAppends(r, record) ==
    /\ log' = [log EXCEPT ![r] = Append(@, record)]
    /\ said' = [said EXCEPT ![epoch[r]].log = Append(log[r], record)]
    /\ UNCHANGED <<epoch, vote, leader, durable, base, memory, lost, asked, granted, fetched>>

Write(r, value) ==
    /\ r \notin lost
    /\ role[r] = "leader"
    /\ LeaderAppends(r, [epoch |-> epoch[r], voters |-> Voters(r), value |-> value])

\* What a leader counts of a voter: of itself what it has flushed, of another what its newest
\* Fetch of this epoch acknowledges, where the logs agree.
Acknowledged(r, v) ==
    IF v = r THEN Flushed(r)
    ELSE IF epoch[r] \notin DOMAIN fetched[v] THEN 0
    ELSE LET f == fetched[v][epoch[r]]
         IN  IF Matches(f.last, log[r]) THEN f.acked ELSE 0

\* Records of older epochs are committed with one of the leader's own, never alone.
IsOfOwnEpoch(r, n) == log[r][n].epoch = epoch[r]

MayCommit(r, n) ==
    /\ IsOfOwnEpoch(r, n)
    /\ IsMajority({v \in Voters(r) : Acknowledged(r, v) >= n}, Voters(r))

Commit(r, n) ==
    /\ r \notin lost
    /\ role[r] = "leader"
    /\ n > highWatermark[r] /\ n <= Len(log[r])
    /\ MayCommit(r, n)
    /\ highWatermark' = [highWatermark EXCEPT ![r] = n]
    /\ said' = [said EXCEPT ![epoch[r]].highWatermark = n]
    /\ UNCHANGED <<disk, role, lost, asked, granted, fetched>>

--------------------------------------------------------------------------------
(* KIP-856's voter changes.                                                 *)

HasNoUncommittedChange(r) ==
    \A n \in highWatermark[r]..Len(log[r]) : VotersAt(r, n) = Voters(r)

HasCommittedInOwnEpoch(r) ==
    highWatermark[r] > 0 /\ log[r][highWatermark[r]].epoch = epoch[r]

ChangeVoters(r, voters) ==
    /\ r \notin lost
    /\ role[r] = "leader"
    /\ HasNoUncommittedChange(r)
    /\ HasCommittedInOwnEpoch(r)
    /\ LeaderAppends(r, [epoch |-> epoch[r], voters |-> voters, value |-> None])

AddVoter(r, v)    == v \notin Voters(r) /\ ChangeVoters(r, Voters(r) \cup {v})
RemoveVoter(r, v) == v \in Voters(r) /\ Voters(r) # {v} /\ ChangeVoters(r, Voters(r) \ {v})

--------------------------------------------------------------------------------
(* Crashes and lost disks.                                                  *)

RoleAfterRestart(r) == IF leader[r] \in {None, r} THEN "unattached" ELSE "follower"

\* The process ends and starts again.  The disk has the log l: what was durable, or all of that
\* and more of what was written; h is what a snapshot of its own proves to be committed.
Restart(r, l, h) ==
    /\ r \notin lost
    /\ l = durable[r] \/ (Flushed(r) <= Len(l) /\ IsPrefix(l, log[r]))
    /\ h <= highWatermark[r] /\ h <= Len(l)
    /\ log' = [log EXCEPT ![r] = l]
    /\ durable' = [durable EXCEPT ![r] = l]
    /\ role' = [role EXCEPT ![r] = RoleAfterRestart(r)]
    /\ highWatermark' = [highWatermark EXCEPT ![r] = h]
    /\ UNCHANGED <<epoch, vote, leader, base, lost, messages>>

\* The replica never comes back; its node may, as another replica.
Forget(r) ==
    /\ EnterEpoch(r, 0, None, None, "unattached")
    /\ log' = [log EXCEPT ![r] = <<>>]
    /\ durable' = [durable EXCEPT ![r] = <<>>]
    /\ highWatermark' = [highWatermark EXCEPT ![r] = 0]
    /\ UNCHANGED <<base, messages>>

LoseDisk(r) ==
    /\ r \notin lost
    /\ lost' = lost \cup {r}
    /\ Forget(r)

--------------------------------------------------------------------------------
Elections ==
    \E r \in Replicas :
        \/ StartElection(r) \/ BecomeLeader(r) \/ Resign(r)
        \/ \E a \in asked : GrantVote(r, a) \/ LearnEpoch(r, a.epoch)
        \/ \E e \in DOMAIN said : \E l \in said[e].leaders : Follow(r, e, l)

Replication ==
    \E r \in Replicas :
        \/ Fetch(r) \/ Truncate(r)
        \/ role[r] = "follower" /\ \E n \in 1..Len(SentTo(r).log) :
              Replicate(r, n) \/ LearnHighWatermark(r, n)
        \/ \E n \in 0..Len(log[r]) : Flush(r, n) \/ Commit(r, n)

Writes      == \E r \in Replicas : \E value \in Values : Write(r, value)
Snapshots   == \E r \in Replicas : \E e \in DOMAIN said :
                  \E n \in 1..said[e].highWatermark : InstallSnapshot(r, e, n)
Changes     == \E r, v \in Replicas : AddVoter(r, v) \/ RemoveVoter(r, v)
Crashes     == \E r \in Replicas : \E h \in 0..highWatermark[r] :
                  \/ Restart(r, durable[r], h)
                  \/ \E n \in 0..Len(log[r]) : Restart(r, Prefix(log[r], n), h)
LostDisks   == \E r \in Replicas : LoseDisk(r)

Next == Elections \/ Replication \/ Writes \/ Snapshots \/ Changes \/ Crashes \/ LostDisks

Spec == Init /\ [][Next]_vars

--------------------------------------------------------------------------------
(* Safety.                                                                  *)

CommittedIn(e) == Prefix(said[e].log, said[e].highWatermark)

\* The longest log that a leader of any epoch has committed.
Committed ==
    IF DOMAIN said = {} THEN <<>>
    ELSE CommittedIn(CHOOSE e \in DOMAIN said :
            \A f \in DOMAIN said : said[f].highWatermark <= said[e].highWatermark)

ElectionSafety == \A e \in DOMAIN said : Cardinality(said[e].leaders) = 1

\* The leader of an epoch has all that was committed in lower ones.
LeaderCompleteness ==
    \A e, f \in DOMAIN said : e < f => IsPrefix(CommittedIn(e), said[f].log)

\* No two replicas ever take different records for committed.
StateMachineSafety ==
    /\ \A e \in DOMAIN said : IsPrefix(CommittedIn(e), Committed)
    /\ \A r \in Replicas : IsPrefix(Prefix(log[r], highWatermark[r]), Committed)

LogMatching ==
    \A r, s \in Replicas : \A n \in 1..Len(log[r]) :
        n <= Len(log[s]) /\ log[r][n].epoch = log[s][n].epoch
            => Prefix(log[r], n) = Prefix(log[s], n)

\* No disk votes twice in an epoch: not after a crash, nor after it was lost.
OneVotePerEpoch ==
    \A g, h \in granted : g.epoch = h.epoch /\ g.voter = h.voter => g.candidate = h.candidate

KeepsWhatIsCommitted == \A r \in Replicas : highWatermark[r] <= Len(log[r])

\* While a majority of the directories of the committed set is there, so is all that is
\* committed, and a crash does not take it.
CommittedSurvives ==
    LET voters == IF Committed = <<>> THEN {} ELSE Committed[Len(Committed)].voters
    IN  IsMajority(voters \ lost, voters) =>
            \E r \in voters \ lost :
                Flushed(r) >= Len(Committed) /\ IsPrefix(Committed, log[r])

HighWatermarksRise ==
    [][\A e \in DOMAIN said : said'[e].highWatermark >= said[e].highWatermark]_vars

TypeOK ==
    /\ epoch \in [Replicas -> Nat]
    /\ \A r \in Replicas : vote[r] \in Replicas \cup {None} /\ leader[r] \in Replicas \cup {None}
    /\ role \in [Replicas -> {"unattached", "follower", "candidate", "leader"}]
    /\ lost \subseteq Replicas
================================================================================
