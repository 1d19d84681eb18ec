"""Operations on colonies: workers that a queen prepares for work that goes on by itself."""
