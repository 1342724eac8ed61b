"""Numbers over time: samples of topics and groups, their roll-ups, and series made of them."""
