"""What a log knows of its producers and their transactions, and the files of it."""
