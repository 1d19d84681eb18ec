"""Operations on plans of tasks."""
