"""REST views of groups: translate, call one service or selector, translate back."""
