"""The lane: the data plane without HTTP's cost for each request, on connections HTTP hands over."""
