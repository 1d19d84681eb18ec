"""Operations on the tree and on what an agent is and may do."""
