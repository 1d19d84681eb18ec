"""What runs inside a container: standard library, the codec and the errors only."""
