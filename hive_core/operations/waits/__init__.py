"""Operations that wait."""
