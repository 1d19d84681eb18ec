"""The effects of the daemon on its host, one package for each kind."""
