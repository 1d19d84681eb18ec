"""The nouns: immutable values and the checks on them, without any effect."""
