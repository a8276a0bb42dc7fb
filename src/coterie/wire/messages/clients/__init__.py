"""What a broker speaks, and what is known of its clients: their versions and metrics."""
