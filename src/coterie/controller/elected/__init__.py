"""What a controller does while it is elected: its view of the cluster, and the decisions about topics and leaders."""
