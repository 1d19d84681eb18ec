"""The deploy road: from a proposed commit to an agent that is healthy with it, or back."""
