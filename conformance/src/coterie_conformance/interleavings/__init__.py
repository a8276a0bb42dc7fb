"""Every interleaving of a small group: the production machines of coordinator and members, and all orders of what may
happen.

A state is the group, the members' machines, what is on its way between them, and what may still go wrong. Its
successors are one event each: a request or a response arrives or is lost, a member notices that, or gives up a
connection whose request arrives all the same, a listener returns, a process dies, time goes on to the next deadline.
Two states that differ only by the date are one. Time goes on while something is on its way only as often as
`FaultBudget.slow` allows.

What must hold: the assertions of the core, of its checkers and of `MemberChecker`; no partition with two owners of one
generation; and from every state the group comes to rest once nothing more goes wrong: all living members in one stable
generation, each with its share, every partition owned once. States are kept as 64-bit hashes (Holzmann's hash
compaction): among 10^7 of them two are taken for one with a probability of 3 in 10^6.
"""
