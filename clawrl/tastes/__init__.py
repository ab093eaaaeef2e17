"""What one person likes in a reply, as checks that anyone can run: for personas and for measuring."""
