"""Jobs: when one has reached its goals, and imports of older installs."""
