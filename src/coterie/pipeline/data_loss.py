"""The error of records that are gone."""

from __future__ import annotations


class DataLossError(RuntimeError):
    """Records that were to be read are no longer there (failOnDataLoss)."""
