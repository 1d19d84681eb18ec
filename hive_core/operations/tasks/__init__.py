"""Operations on tasks."""
