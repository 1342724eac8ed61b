"""What is run by hand while the product is written, and never by the product."""
