"""The proof kit: the tools by which tests, benchmarks and the demo exercise the product.

The product never imports it, and no wheel or image contains it. Nothing here needs a cluster, and
only `fuzz`, `kafkacontroller` and `specification` need more than a node does (atheris; Java and
Kafka's jars; TLC).
Without processes, sockets or clocks of their own:

- `simulator`: runs a whole quorum in one thread, from one seed, under all faults;
- `explorer`: runs a small quorum in every possible order of events;
- `specification`: the quorum in TLA+, and whether it permits what was recorded of a run;
- `playbook`: a few replicas scripted by hand, message by message;
- `linearizability`: checks whether a history of clients is possible with a single atomic map;
- `mutation`: removes a rule from a function for a while, to see which tests notice;
- `badrequests`: requests between nodes, each with one fault, and the expected answers;
- `badchanges`: the same for HTTP requests that form or change a quorum;
- `fuzz`: a target for each decoder of bytes from outside;
- `operatorworld`: a model of a cluster with a quorum, for the operator's decisions;
- `replicadirs`: data directories of replicas with a known history, and damage to them;
- `memoryservice`: a node's service in memory, for tests of a node's clients;
- `fullpipe`: a file that hangs;
- `certificates`: authorities and certificates for tests;
- `accounttokens`: tokens of ServiceAccounts, signed for tests.

Disks and processes:

- `faultdisk`: a disk in memory that forgets, fails and lies on demand;
- `bit_flips`, `bit_flip_directories`: one flipped bit in every byte of every file;
- `crash`: crashes at every system call, and the data that must survive each;
- `loopback`: addresses that no other run on this machine uses;
- `localquorum`: a quorum of real processes on this machine;
- `quorumsecurity`: the TLS files and tokens of such a quorum;
- `guardednode`: a node's API behind TLS and a token, for tests of clients;
- `faultynode`: a node whose storage calls or event loop hang, slow down or fail on demand;
- `countednode`: a node that counts what it does;
- `oldernode`: a node that does not know finished batches;
- `tracednode`: a node that records what its core does;
- `busyclients`: clients that write and read continuously, and how long they waited;
- `floods`: thousands of clients at once that use a node up;
- `clientrecord`: a client's own record of its writes;
- `kafkacontroller`, `kafkaquorum`: an Apache Kafka controller, to compare with.

A seed runs a world with its faults, and raises `InvariantError` with the name of what broke;
`make sim SEED=n` shows the same life with its trace:

>>> from proofkit.simulator.run import run_seed
>>> outcome = run_seed(3)
>>> outcome.acknowledged > 0, outcome.faults["crash"] > 0
(True, True)

A scenario decides which message arrives. Here an isolated leader appends a write, and the others
elect a leader. The write is truncated; it was never acknowledged, since no majority had it:

>>> from proofkit.playbook import Playbook
>>> book = Playbook.formed("1", "2", "3")
>>> def data(name):
...     return [batch.data for batch in book[name].disk.log if not batch.control]
>>> _ = book.append("1", b"committed")
>>> book.run(100)
>>> book.isolate("1")
>>> _ = book.append("1", b"not replicated")
>>> book.elect("2")
>>> data("1"), data("2")
([b'committed', b'not replicated'], [b'committed'])
>>> book.heal()
>>> book.run(5000)
>>> data("1")
[b'committed']

A test must notice when a rule is missing. Without the check of the candidate's log (P8) the voters
elect a replica that lacks committed records:

>>> from raftnode.core.elections import election
>>> from proofkit.mutation import taken_out
>>> from proofkit.simulator.invariants import InvariantError
>>> def broken_promise(seed):
...     try:
...         run_seed(seed)
...     except InvariantError as found:
...         return found.name
>>> with taken_out(election._judge_vote, "if request.last < replica.log.position:", "if False:"):
...     next(filter(None, map(broken_promise, range(10, 70))))
'LeaderCompleteness'

The check of linearizability works for any clients; here a get missed a put that had ended:

>>> from proofkit.linearizability import History, check
>>> history = History()
>>> put = history.called(b"key", 1.0, is_write=True, value=b"new")
>>> history.returned(put, 2.0)
>>> get = history.called(b"key", 3.0, is_write=False)
>>> history.returned(get, 4.0, value=None)
>>> check(history.all()).key
b'key'
"""
