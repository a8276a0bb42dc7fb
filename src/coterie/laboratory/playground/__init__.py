"""The laboratory to play with, also in a browser: one group in virtual time, its events and their rules, lessons."""
