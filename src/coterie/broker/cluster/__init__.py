"""A broker's part in a cluster, in real time: the pure rooms `replication` and `controller` over sockets and a session with
ZooKeeper."""
