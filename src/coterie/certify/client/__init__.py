"""Any language's consumer or producer through the stories of a nasty day: `consumer_stories` and `producer_stories` are the
tables, `stage` carries one story out around the user's processes, `verdict` and `producer_verdict` judge its `history`."""
