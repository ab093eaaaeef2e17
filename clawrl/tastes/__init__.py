"""What one person likes in a reply, as checks anyone can run: for personas and for measuring."""
