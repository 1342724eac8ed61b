"""Jobs over the whole history: their catalogue, their runs, the lake they fill, their results."""
