"""Pages that Fuselight writes as one HTML file: their document, their parts, their style and script."""
