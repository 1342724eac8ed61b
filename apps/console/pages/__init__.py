"""One module a page. A page reads the board and renders; it asks no engine and no database."""
