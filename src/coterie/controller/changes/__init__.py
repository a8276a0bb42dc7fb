"""What brokers of a cluster are notified of through ZooKeeper: changes of settings, ACLs and delegation tokens."""
