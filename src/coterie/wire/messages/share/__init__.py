"""Share groups (KIP-932): members join and beat, records are acquired and acknowledged, and the state behind both is kept."""
