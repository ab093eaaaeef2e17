"""What a reply answers, and whether that is right."""
