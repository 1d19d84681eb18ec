"""Operations on batches of tasks."""
