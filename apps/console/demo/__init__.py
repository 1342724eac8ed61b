"""An order system that plays through the SDK, so that there is something to see."""
