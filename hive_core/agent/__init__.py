"""The programs in a container; they use the standard library, the codec and the errors."""
