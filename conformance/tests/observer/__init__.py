"""Tests of the observer's part of `compare`."""
