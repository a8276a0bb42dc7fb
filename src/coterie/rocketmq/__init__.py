"""RocketMQ's client-side rebalance as a machine: heartbeats, views, shares, process queues, queue locks."""
