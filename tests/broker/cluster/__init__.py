"""The drivers of a cluster: brokers in one process, over loopback sockets and one ZooKeeper in real time."""
