"""Commands about agents: the tree, life cycles, rights, shells."""
