"""The consumer's machines: what to fetch from whom and what responses mean. No clock, no randomness, no IO."""
