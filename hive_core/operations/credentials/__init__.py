"""Operations on credentials: what is known of secrets, without their values."""
