"""Scenarios of members: of the classic protocol with a broker, alone, and of the consumer protocol."""
