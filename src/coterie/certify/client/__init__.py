"""Any language's consumer or producer through the stories of a nasty day: `stories` are the tables, `stage` carries one out
around the user's processes, `verdict` judges its `history`."""
