"""What objects are: the type language, the immutable model of types, and rules about both."""
