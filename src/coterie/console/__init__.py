"""Ring 4: what people look at. Dictionaries in, pages out; nothing here sends a request."""
