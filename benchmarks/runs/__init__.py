"""One module for each line of work: what is measured, how, and what is left out."""
