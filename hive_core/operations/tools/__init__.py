"""Operations on tool grants."""
