"""Operations: what a Computer counts, and how an operator sees it."""
