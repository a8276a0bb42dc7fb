"""RocketMQ's own servers and consumers, beside our consumer and its allocation strategies."""
