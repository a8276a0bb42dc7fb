"""How texts of ours write numbers, lags and addresses, and how files that commands read become text."""
