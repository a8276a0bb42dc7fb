"""`coterie mcp`: what agents may read about groups, and nothing that changes one."""
