"""Operations of whoever runs the Computer: intent into files first, then absorbed."""
