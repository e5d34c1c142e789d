"""Old and new text of a fix, compared on calls."""
