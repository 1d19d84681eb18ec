"""Operations on artifacts."""
