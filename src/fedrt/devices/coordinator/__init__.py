"""The coordinator: runs the loop, with measured worlds and plans that real devices carry out."""
