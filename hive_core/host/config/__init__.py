"""Settings of the host, deployed configurations, and the Nix of this machine."""
