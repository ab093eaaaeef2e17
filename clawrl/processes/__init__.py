"""Child processes that cannot outlive their supervisor, and where to kill them in tests."""
