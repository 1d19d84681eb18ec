"""Planning: compares desired with observed state and gives actions as values. Pure."""
