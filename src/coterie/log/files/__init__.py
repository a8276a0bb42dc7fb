"""The files of a log's folder: the operations on them, small ones with a checksum, and the defects found in them."""
