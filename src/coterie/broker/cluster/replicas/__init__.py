"""The replicas of this broker: fetches from leaders, and of followers."""
