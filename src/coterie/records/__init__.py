"""Ring 1, values: record batches as they stand in a log and on the wire, and the records inside."""
