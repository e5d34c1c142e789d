"""Report → words, pages and pictures."""
