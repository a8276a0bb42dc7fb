"""`coterie mcp`: what agents may ask about groups, and nothing that changes one."""
