"""A request while it is handled: the call, a response that comes later, turns on the event loop, memory, fetch sessions."""
