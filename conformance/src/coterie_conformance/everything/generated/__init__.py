"""Requests that are made from the wire's schemas: each field of each API with each class of value."""
