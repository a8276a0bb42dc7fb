"""The history of groups, as tables: from `__consumer_offsets` (a topic, or log folders), the journal, or a broker's log.

Two facts are kept, and grow with each run: `commits` and `group_log` (the other records and transaction markers, as they
stand). Everything else follows from them: `tables` has the columns of each table; each has one function that makes it.
"""
