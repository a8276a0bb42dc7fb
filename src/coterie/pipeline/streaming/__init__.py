"""A streaming read: group mode and assign mode, the size of a micro-batch, and what its checkpoint says."""
