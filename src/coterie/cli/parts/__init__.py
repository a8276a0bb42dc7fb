"""What commands are made of: options, exit codes, errors, completion, and the documents of `--json`."""
