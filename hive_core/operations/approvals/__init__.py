"""Operations on proposals, approvals and the repositories behind them."""
