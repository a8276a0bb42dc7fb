"""The leader epochs of a log and of its batches."""
