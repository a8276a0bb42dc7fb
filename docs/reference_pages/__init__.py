"""The reference's tables as Markdown, made from the tables in the code at each build; nothing of it is committed."""
