"""The stages one after another over recorded runs: judge again, train again, replay, measure."""
