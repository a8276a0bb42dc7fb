"""What `coterie-conformance stories` sums over its seeds, and how it is called."""

from __future__ import annotations

# The subject of a seed's story -> what is summed over the seeds.
STORIES = {
    "programs": ("events", "acknowledged", "delivered", "transactions", "faults", "broker_crashes"),
    "members": ("events", "rebalances", "broker_crashes", "compactions"),
    "consumer-groups": (
        *("events", "epochs", "fenced", "conversions", "broker_crashes", "compactions"),
        *("with_classic", "with_consumer", "with_mixed", "with_conversion"),
    ),
}
ALL = "all"  # one seed of each subject after the other
STORIES[ALL] = ("events", "broker_crashes", *STORIES)


# What is summed -> its noun, in singular and plural.
NOUNS = {
    "seeds": ("seed", ""),
    "events": ("event", ""),
    "rebalances": ("rebalance", ""),
    "epochs": ("group epoch", ""),
    "fenced": ("member fenced", "members fenced"),
    "conversions": ("change of protocol", "changes of protocol"),
    "acknowledged": ("batch acknowledged", "batches acknowledged"),
    "delivered": ("record delivered", "records delivered"),
    "transactions": ("transaction", ""),
    "faults": ("fault", ""),
    "broker_crashes": ("broker crash", "broker crashes"),
    "compactions": ("compaction", ""),
    "programs": ("seed of programs", "seeds of programs"),
    "members": ("seed of members", "seeds of members"),
    "consumer-groups": ("seed of consumer groups", "seeds of consumer groups"),
}
# What is counted once for each seed in which it happened -> what it is, after its share of the seeds.
SHARES = {
    "with_classic": "with a classic group",
    "with_consumer": "with a group of the consumer protocol alone",
    "with_mixed": "with a mixed group",
    "with_conversion": "with a conversion",
}
