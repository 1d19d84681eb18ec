"""Jobs: whether one has reached its goals, and imports of older installations."""
