"""Whether offered fixes keep what their class promises, on programs made to break them."""
