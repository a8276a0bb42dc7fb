"""Histories of clients while brokers are killed, searched for anomalies."""
