"""Messages that wait for their time, as operators see them, and the beat that delivers levels."""
