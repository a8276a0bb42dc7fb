"""Bytes from outside, and the properties that every decoder of them keeps."""
