"""Python source of types: how it is laid out, how names are spelled, what stands in a class."""
