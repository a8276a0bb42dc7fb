"""Client quotas as machines (KIP-13, KIP-55, KIP-124): `limits` says which quota is whose, `rates` measures and how long to
throttle. Times are arguments."""
