"""The effects of the daemon, one door each."""
