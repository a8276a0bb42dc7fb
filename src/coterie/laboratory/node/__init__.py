"""The broker's own handlers in virtual time, on a disk that fails: the node, its connections, clients, and what must hold."""
