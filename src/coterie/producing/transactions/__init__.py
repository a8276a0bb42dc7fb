"""A producer's transaction as a machine (KIP-98), beside the one that sends its batches."""
