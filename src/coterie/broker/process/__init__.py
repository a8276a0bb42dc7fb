"""What the broker has of its process and machine: clock, scheduling, the C library's memory, file descriptors, logging, RE2."""
