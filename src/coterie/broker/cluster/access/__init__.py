"""What a cluster's brokers share of access in ZooKeeper: ACLs, delegation tokens, client quotas and SCRAM credentials."""
