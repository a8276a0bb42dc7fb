"""Ring 3: the asyncio driver. A Kafka broker in one process: sockets, disk, clock; the core decides."""
