"""`coterie cluster`: the processes of a cluster on this machine."""
