"""One evaluation: its folder, what is drawn, and its results."""
