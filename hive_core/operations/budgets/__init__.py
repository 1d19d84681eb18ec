"""Operations on budgets, and what is charged to them."""
