"""Pages of the pipelines. A page reads services and selectors, and renders."""
