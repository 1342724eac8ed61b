"""Pages and live sockets for operators. Reads what the feed built; decides nothing."""
