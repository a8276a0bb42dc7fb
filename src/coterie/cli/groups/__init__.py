"""`coterie groups`: what a group is, does and did, its offsets, and the groups of ZooKeeper."""
