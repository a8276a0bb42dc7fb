"""Ring 3: the driver in virtual time. The very same coordinator under one seed, with faults, checked after every step."""
