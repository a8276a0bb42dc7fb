"""Other clients at a broker with TLS and SASL."""
