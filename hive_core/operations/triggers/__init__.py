"""Operations on triggers and reminders."""
