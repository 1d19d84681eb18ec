"""Operations of an agent on its own sub-agents."""
