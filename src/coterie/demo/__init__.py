"""The main job: real flights, a group that rebalances before your eyes, Spark tables, checks, a report."""
