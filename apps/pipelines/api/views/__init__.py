"""REST views of the pipelines: translate, call one service or selector, translate back."""
