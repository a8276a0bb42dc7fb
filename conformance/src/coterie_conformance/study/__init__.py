"""Points of the study of rebalancing, measured with real processes."""
