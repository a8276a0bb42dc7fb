"""The transaction coordinator as a pure machine: one transactional id, its producer, and the partitions it wrote to (KIP-98).

A step takes a `Transaction` and gives the next one, or raises Refusal; the driver appends it to `__transaction_state`,
writes the markers, and appends the end. One broker leads every partition, so markers are written before the response.
"""
