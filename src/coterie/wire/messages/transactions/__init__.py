"""Producer ids, transactions, and the offsets committed in them."""
