"""The data of the messages that Fuselight adds to LSP: what a client asks for, and what the server answers or sends."""
