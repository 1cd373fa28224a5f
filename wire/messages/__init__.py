"""The messages actors exchange, one module per actor that answers them."""
