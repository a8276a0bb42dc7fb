"""What drivers share of the process they run in: signals, optional dependencies, buffers of connections, ZooKeeper by kazoo."""
