"""Records of groups in `__consumer_offsets`: hard events to records and back, and the log that holds them."""
