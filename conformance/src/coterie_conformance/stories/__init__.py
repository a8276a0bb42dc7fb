"""Stories of the real program: production brokers and clients in virtual time, under faults, and the rules of their history.

A seed draws a `plan`: brokers, settings, programs. The programs (`programs`, `members`, `administrators`) note all that they
send, read and commit in one `history`; `faults` and `request_faults` are the table of what may happen to them. At the end
`checkers` compare the history with what is read, look at the logs themselves, and hold of members at every moment.
`story` is the whole.
"""
