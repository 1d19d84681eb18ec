"""What an agent is: its spec, its place in the tree, its role, rights and machine."""
