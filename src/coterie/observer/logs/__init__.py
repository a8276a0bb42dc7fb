"""Logs of brokers, of any layout: followed as they grow, and the lines of the coordinator in them."""
