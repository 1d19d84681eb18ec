"""The programs of a container; they use the standard library, the codec and the errors."""
