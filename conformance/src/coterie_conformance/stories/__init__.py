"""Stories of the real program: production brokers and clients in virtual time, under faults, and the rules of their history.

A seed draws a `plan`: brokers, settings, programs. The `programs` note all that they send, read and commit in one `history`;
`faults` is the table of what may happen to them; `checkers` compare the history with the logs at the end. `story` is the whole.
"""
