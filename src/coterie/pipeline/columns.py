"""The source's columns: those of Spark's Kafka source."""

from __future__ import annotations

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS = "headers array<struct<key:string,value:binary>>"
