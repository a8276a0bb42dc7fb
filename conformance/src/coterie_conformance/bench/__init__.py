"""`coterie-conformance bench`: what this machine's coterie does, beside what it aims at. A benchmark, not a test."""
