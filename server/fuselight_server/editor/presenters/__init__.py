"""Data → LSP types and trees."""
