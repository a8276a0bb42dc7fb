"""What drivers share of their process: signals, memory, optional dependencies, buffers of connections, ZooKeeper by kazoo."""
