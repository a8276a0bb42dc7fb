"""What the requests of a group's members say about it, seen between them and the coordinator: the journal's lines.

`classic_events` is the table from a request, or a response, to the coordinator's events, `classic_group` applies them to a
group and makes the lines by the coordinator's own code, `consumer_group` has the groups of KIP-848, and `groups` all of a
cluster's. Without IO and without a clock.
"""
