"""Problems that personas and tasks bring: files, hub data sets, generators, and their order."""
