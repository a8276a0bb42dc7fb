"""Spark finds data sources in modules named pyspark_*: with this one installed, `format("coterie")` works unregistered."""

from coterie.pipeline.source import CoterieDataSource as DefaultSource

__all__ = ["DefaultSource"]
