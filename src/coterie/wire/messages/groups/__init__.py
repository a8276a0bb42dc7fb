"""Groups and their committed offsets: members join, beat and leave; groups are listed, described and deleted."""
