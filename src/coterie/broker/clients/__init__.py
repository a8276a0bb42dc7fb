"""What the broker keeps about its clients: what it saw of them, pushed metrics (KIP-714), quotas and SCRAM credentials."""
