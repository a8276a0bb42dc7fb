"""What the broker keeps about its clients: pushed metrics (KIP-714), quotas and SCRAM credentials."""
