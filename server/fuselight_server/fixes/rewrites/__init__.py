"""Families of fixes: each makes new text for a finding."""
