--------------------------------- MODULE Steps ---------------------------------
(* Actions of KRaftQuorum as data: what is recorded of runs.                *)
(*                                                                         *)
(* A step is a tuple: the name of an action, its replica, and perhaps what  *)
(* else was seen.  "State" is no action: it compares what a replica says of *)
(* itself.  A step that the specification does not permit has no next state.*)
EXTENDS KRaftQuorum

\* What a replica says of itself: its log by its length and last epoch, its voters unless its
\* log is empty, in which case only a formed replica knows any.
Says(s) ==
    LET r == s[2]
    IN  /\ role[r] = s[3]
        /\ epoch[r] = s[4] /\ vote[r] = s[5] /\ leader[r] = s[6]
        /\ Position(log[r]) = [end |-> s[7], epoch |-> s[8]]
        /\ Flushed(r) = s[9]
        /\ highWatermark[r] = s[10]
        /\ log[r] = <<>> \/ Voters(r) = s[11]
        /\ UNCHANGED vars

Appended(l, from) == [i \in 1..Len(l) - from |-> <<l[from + i].epoch, l[from + i].value>>]

LogAt(r, n) == IF n < 0 THEN durable[r] ELSE Prefix(log[r], n)

Step(s) ==
    LET r == s[2]
    IN  CASE s[1] = "State"              -> Says(s)
          [] s[1] = "Fetch"              -> /\ Fetch(r)
                                            /\ Len(log[r]) = s[3] /\ Flushed(r) = s[4]
          [] s[1] = "Flush"              -> Flush(r, s[3])
          [] s[1] = "Write"              -> Write(r, s[3])
          [] s[1] = "Replicate"          -> /\ Replicate(r, s[3])
                                            /\ Appended(log'[r], Len(log[r])) = s[4]
          [] s[1] = "Commit"             -> Commit(r, s[3])
          [] s[1] = "LearnHighWatermark" -> LearnHighWatermark(r, s[3])
          [] s[1] = "StartElection"      -> StartElection(r) /\ epoch'[r] = s[3]
          [] s[1] = "GrantVote"          -> \E a \in asked : /\ a.epoch = s[3]
                                                             /\ a.candidate = s[4]
                                                             /\ GrantVote(r, a)
          [] s[1] = "BecomeLeader"       -> BecomeLeader(r) /\ epoch[r] = s[3]
          [] s[1] = "LearnEpoch"         -> LearnEpoch(r, s[3])
          [] s[1] = "Follow"             -> Follow(r, s[3], s[4])
          [] s[1] = "Resign"             -> Resign(r)
          [] s[1] = "Truncate"           -> Truncate(r) /\ Len(log'[r]) = s[3]
          [] s[1] = "InstallSnapshot"    -> InstallSnapshot(r, s[3], s[4])
          [] s[1] = "AddVoter"           -> AddVoter(r, s[3])
          [] s[1] = "RemoveVoter"        -> RemoveVoter(r, s[3])
          [] s[1] = "Restart"            -> Restart(r, LogAt(r, s[3]), s[4])
          [] s[1] = "LoseDisk"           -> LoseDisk(r)
================================================================================
