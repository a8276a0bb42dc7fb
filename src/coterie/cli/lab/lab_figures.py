"""What `coterie lab fuzz` sums over its seeds, and how it is called."""

from __future__ import annotations

# The subject of a seed's story -> what is summed over the seeds.
STORIES = {
    "members": ("events", "rebalances", "broker_crashes", "compactions"),
    "consumer-groups": (
        *("events", "epochs", "fenced", "conversions", "broker_crashes", "compactions"),
        *("with_classic", "with_consumer", "with_mixed", "with_conversion"),
    ),
    "producers": ("events", "commits", "commits_of_version_2", "aborts", "refused", "torn", "broker_crashes"),
    "senders": ("events", "given", "duplicates", "splits", "broker_crashes"),
    "records": ("events", "acknowledged", "refused", "transactions", "disk_failures", "broker_crashes"),
    "clients": (
        *("events", "acknowledged", "delivered", "copied", "disk_failures", "broker_crashes"),
        *("with_consumer", "with_mixed"),
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
    "commits": ("commit", ""),
    "commits_of_version_2": ("commit of version 2", "commits of version 2"),
    "aborts": ("abort", ""),
    "torn": ("torn transaction of version 1", "torn transactions of version 1"),
    "given": ("record sent", "records sent"),
    "duplicates": ("duplicate batch", "duplicate batches"),
    "splits": ("batch split", "batches split"),
    "acknowledged": ("batch acknowledged", "batches acknowledged"),
    "refused": ("refusal", ""),
    "delivered": ("record delivered", "records delivered"),
    "copied": ("record copied in transactions", "records copied in transactions"),
    "transactions": ("transaction", ""),
    "faults": ("fault", ""),
    "disk_failures": ("failure of the disk", "failures of the disk"),
    "broker_crashes": ("broker crash", "broker crashes"),
    "compactions": ("compaction", ""),
    "members": ("seed of members", "seeds of members"),
    "consumer-groups": ("seed of consumer groups", "seeds of consumer groups"),
    "producers": ("seed of producers", "seeds of producers"),
    "senders": ("seed of senders", "seeds of senders"),
    "records": ("seed of records", "seeds of records"),
    "clients": ("seed of clients", "seeds of clients"),
}
# What is counted once for each seed in which it happened -> what it is, after its share of the seeds.
SHARES = {
    "with_classic": "with a classic group",
    "with_consumer": "with a group of the consumer protocol alone",
    "with_mixed": "with a mixed group",
    "with_conversion": "with a conversion",
}
