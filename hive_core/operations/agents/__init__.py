"""Operations on the tree, on agents, and on their rights."""
