"""Ring 3: the driver in virtual time. The very same coordinator under one seed, checked after every step."""
