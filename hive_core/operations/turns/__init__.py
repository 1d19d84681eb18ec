"""Operations on the turns of sessions."""
