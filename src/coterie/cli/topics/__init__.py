"""`coterie topics`: topics, and the brokers that hold them."""
