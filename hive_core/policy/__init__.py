"""Authorization: rules over one snapshot of the tree, and the decision with its reason."""
