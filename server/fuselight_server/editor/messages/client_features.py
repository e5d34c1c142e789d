"""What a client can do: read once, at its start, and asked by every feature that some clients lack.

Invariant: no feature asks who the client is, only what it can do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class ClientFeatures:
    """What the client can do, as plain values."""

    push: bool = True
    """Whether it takes diagnostics that it has not asked for."""
    configuration: bool = False
    """Whether it can be asked for settings."""
    progress: bool = False
    lenses: bool = True
    """Whether it shows lenses; another one gets what they run as code actions."""
    lens_refresh: bool = False
    hint_refresh: bool = False
    watch: bool = False
    """Whether it reports files that change on the disk."""
    diagnostic_refresh: bool = False
    confirm_run: bool = False
    """Whether it asks before code runs in its own words, and keeps the answers."""
    resolves_actions: bool = False
    """Whether it asks for the edit of a code action when that is chosen."""
    actions: bool = True
    """Whether it shows code actions; in another client no text refers to them."""
    action_literals: bool = True
    """Whether it takes code actions; a client that does not takes commands alone."""
    markdown: bool = True
    """Whether its hovers show Markdown."""
    applies_edits: bool = True
    """Whether the server can have it apply an edit."""
    document_changes: bool = False
    """Whether an edit may say of which version of a file it is."""
    change_annotations: bool = False
    """Whether an edit may ask for a preview."""
    show_document: bool = False
    """Whether it can show a document with a selection."""
    text_content: bool = False
    """Whether it asks for texts that the server has and that are in no file, such as kernels."""
    previews_fixes: bool = False
    """Whether it shows a preview of a fix when it is asked to, with a button that applies all of it."""
    disabled_actions: bool = False
    """Whether it shows a code action that cannot be chosen, with the reason."""
    text_lenses: bool = False
    """Whether a lens without a command is text to it; others run an empty command, and fail."""
    long_commands: bool = True
    """Whether it waits for a command as long as that takes; others give up, and freeze until then."""
    commands: frozenset[str] = frozenset()
    """Commands of its own that lenses and quick fixes may run."""
    notifications: frozenset[str] = frozenset()
    """Our own notifications that it has asked for."""

    @property
    def shows_status(self) -> bool:
        """Whether it shows the status of each folder; others get a message about a problem."""
        return "fuselight/status" in self.notifications
