"""The admin client: one request for each call, as the brokers of every version understand it."""
