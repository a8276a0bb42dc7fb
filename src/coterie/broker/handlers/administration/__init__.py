"""Handlers of topics, settings, quotas, replicas and log folders: what an Admin client sends."""
