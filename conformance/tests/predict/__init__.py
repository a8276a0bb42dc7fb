"""Tests of the predictions part of `compare`."""
