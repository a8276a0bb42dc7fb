"""Members of one group killed for minutes, and what was lost or repeated counted."""
