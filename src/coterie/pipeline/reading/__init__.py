"""Reading ranges of offsets: on the driver, which there are; in tasks, from brokers or from folders of logs."""
