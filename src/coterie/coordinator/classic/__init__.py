"""The classic group protocol: one file per request, what the state itself calls for (settle), how it changes (replay)."""
