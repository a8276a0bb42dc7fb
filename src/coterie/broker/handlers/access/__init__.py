"""What each API checks before its handler has the request, where the broker has an authorizer: `checks` is the table."""
