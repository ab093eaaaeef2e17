"""A persona's taste measured on fixed problems, before and after."""
