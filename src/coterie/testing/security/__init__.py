"""Security in tests: certificates made on the spot, users, ACLs and denials."""
